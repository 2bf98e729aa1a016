package mailbox

import (
	"runtime"

	"github.com/zlnode/zlnode/internal/invariant"
)

// share is how many turns a mailbox of a group has before the next one of the group.
const share = 16

// Group is one gate for several mailboxes: one turn of all of them runs at a time.
// Each keeps its own queue, budget and consumer, so it can be sealed, or leave the
// group with all it holds, without a look at the others. They take turns, up to 16 in a
// row each, and together have the time budget of one claim.
//
// A group is itself a mailbox, whose messages are those of its members that are ready:
// so what holds for readiness and claims of mailboxes holds for it.
type Group struct {
	members Mailbox[*gate]
}

// NewGroup returns a group without members, which p runs. Mailboxes come by Claim.Join
// or NewIn.
func NewGroup(p *Pool) *Group {
	g := new(Group)
	g.members.init(p, runReady{}, Limits{})
	return g
}

// NewIn is New with a mailbox that is a member of g from its first turn on.
func NewIn[T any](g *Group, c Consumer[T], l Limits) *Mailbox[T] {
	m := New(g.members.pool, c, l)
	m.gate.group = g
	return m
}

// othersWait reports whether a member waits, for the claim's holder. A nil group has none.
func (g *Group) othersWait() bool {
	return g != nil && (g.members.list != nil || g.members.inbox.head.Load() != nil)
}

// runReady is a group's consumer. It runs members inside the group's claim.
type runReady struct{}

func (runReady) Begin(*Claim[*gate]) {}

func (runReady) Consume(c *Claim[*gate], v **gate) {
	member := *v
	*v = nil
	member.owner.run(c.w)
}

// Join makes the mailbox a member of g, or of no group if g is nil, from its next turn
// on. Its messages stay as they are. It ends the present claim with this turn.
func (c *Claim[T]) Join(g *Group) {
	c.held()
	c.m.gate.group = g
	c.w.over = true
}

// Yield runs f, which may wait, on the same goroutine, and gives up the group's gate
// meanwhile: turns of the other members run, but none of this mailbox, whose claim stays
// held. When f has ended, Yield waits until it has the gate again. The claim must be of
// a mailbox in a group.
//
// It returns false and does not run f if the pool has as many turns in a Yield as it
// may, or is being closed, or if the turn has called Join.
func (c *Claim[T]) Yield(f func()) bool { return c.yield(f, false) }

// YieldAll is a Yield that gives up this mailbox's claim too: its own next messages run
// meanwhile, in turns of their own. No turn may have the mailbox Join another group
// before all that are in a YieldAll have ended.
func (c *Claim[T]) YieldAll(f func()) bool { return c.yield(f, true) }

func (c *Claim[T]) yield(f func(), all bool) bool {
	w, m := c.held(), c.m
	g := m.gate.group
	invariant.Check(g != nil, "mailbox: Yield of a mailbox in no group")
	all = all || w.left == &m.gate                           // the claim is given up already
	if w.over && w.left != &m.gate || !w.pool.beginYield() { // over: by a Join, whose gate it has yet to get
		return false
	}
	defer w.pool.endYield()
	if all {
		m.back(w)
	}
	g.members.back(w)
	w.pool.lend(w)
	defer func() { // also if f panics
		w.pool.regain(w)
		if !g.enter(w) {
			w.over, w.lost = true, [2]*gate{&g.members.gate}
			if all {
				w.lost[1] = &m.gate
			}
			runtime.Goexit()
		}
		if all { // another turn may hold the claim, in a Yield
			w.left, w.over, w.holder = &m.gate, true, c.w
			c.w = w
		}
	}()
	f()
	return true
}

// reentry is a turn that has yielded and waits for its group's gate, as a member of it.
type reentry struct {
	gate gate
	open chan struct{} // capacity 1
}

// run lets w give the group's claim to the turn that waits: see back.
func (r *reentry) run(w *worker) { w.heir, w.over = r, true }

// enter claims the group for w, which is in the middle of a turn. It returns false if
// the pool is closed: then nobody has the gate any more.
func (g *Group) enter(w *worker) bool {
	m := &g.members
	if !m.inbox.claim(&m.nodes.idle) {
		r := &reentry{open: make(chan struct{}, 1)}
		r.gate.owner = r
		m.PushControl(&r.gate)
		select {
		case <-r.open:
		case <-w.pool.stop:
			return false
		}
	}
	m.claim.w = w
	m.claim.number++
	w.slice.start()
	w.begin()
	return true
}
