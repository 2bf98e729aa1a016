package storetest

import (
	"fmt"
	"strings"

	"github.com/zlnode/zlnode/store"
)

// Names prints what a Store answers so that two Stores print the same: what each
// issues as it likes (generations, versions, epochs) is named in the order in which it
// shows up. The zero value is ready.
type Names struct {
	objects, versions, leases, epochs issued
	owners                            map[store.LeaseGen]string
	wrong                             []string
}

// issued are numbers of one kind, in the order in which they showed up.
type issued []uint64

// name returns the number's place, from 1, and whether it keeps the rule that what is
// issued is larger than all before it.
func (i *issued) name(n uint64) (place int, grows bool) {
	for at, known := range *i {
		if known == n {
			return at + 1, true
		}
	}
	last := len(*i)
	*i = append(*i, n)
	return last + 1, last == 0 || (*i)[last-1] < n
}

// Wrong returns what broke a rule that numbers of every Store keep.
func (n *Names) Wrong() []string { return n.wrong }

func (n *Names) symbol(letter string, of *issued, number uint64) string {
	if number == 0 {
		return letter + "0"
	}
	place, grows := of.name(number)
	if !grows {
		n.wrong = append(n.wrong, fmt.Sprintf("%s%d is %d, which is not above all that were issued before", letter, place, number))
	}
	return fmt.Sprint(letter, place)
}

// Epoch names an epoch.
func (n *Names) Epoch(e store.Epoch) string { return n.symbol("e", &n.epochs, uint64(e)) }

// Version names a version.
func (n *Names) Version(v store.Version) string { return n.symbol("v", &n.versions, uint64(v)) }

// Object names an incarnation.
func (n *Names) Object(g store.ObjectGen) string { return n.symbol("g", &n.objects, uint64(g)) }

// Process names the process of a lease by RID and lease. Its owner id may be unknown.
func (n *Names) Process(rid, owner string, gen store.LeaseGen) string {
	if n.owners == nil {
		n.owners = map[store.LeaseGen]string{}
	}
	if was, known := n.owners[gen]; known && owner != "" && was != owner {
		n.wrong = append(n.wrong, fmt.Sprintf("lease generation %d is that of owner %s and of %s", gen, was, owner))
	}
	if owner != "" {
		n.owners[gen] = owner
	}
	return rid + ":" + n.symbol("l", &n.leases, uint64(gen))
}

// Lease prints the answer of AcquireLease and RenewLease.
func (n *Names) Lease(r store.LeaseResult) string {
	out := []string{r.Reason.String()}
	if r.Lease.OwnerID != "" {
		out = append(out, n.Process(r.Lease.RID, r.Lease.OwnerID, r.Lease.Gen))
	}
	if r.Freed != 0 {
		out = append(out, fmt.Sprint("freed=", r.Freed))
	}
	return strings.Join(append(out, n.Epoch(r.Epoch)), " ")
}

// Change prints the answer of a change.
func (n *Names) Change(c store.Change) string {
	out := c.Reason.String()
	if c.Found {
		out += " " + n.Record(&c.Record)
	}
	if e := n.Epoch(c.Epoch); c.Found && c.Record.Epoch != c.Epoch {
		out += " now " + e
	}
	return out
}

// Record prints a row.
func (n *Names) Record(a *store.Authority) string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	kind := a.Kind.String()
	if a.Wide {
		kind = "wide " + kind
	}
	say("%s: %v %s %s", a.ID, a.State, kind, a.Type)
	say("%s %s", n.Object(a.ObjectGen), n.Version(a.Version))
	say("%s own=%d mesh=%s", n.Process(a.RID, a.OwnerID, a.LeaseGen), a.OwnerGen, a.Mesh)
	if a.LeaseLeft <= 0 {
		say("dead")
	}
	switch {
	case a.SpotVersion != 0:
		say("in %s at %s", a.SpotID, n.Version(a.SpotVersion))
	case a.InUserSpot:
		say("in %s", a.SpotID)
	case a.SpotID != "":
		say("in entry %s", a.SpotID)
	}
	if c := a.Create; c != nil {
		say("by %s/%x with %x", c.Op.SourceRID, c.Op.Op[:2], c.Hash[:2])
		if c.Request != nil {
			say("%q", c.Request)
		}
	}
	if m := a.Move; m != nil {
		say("move %x/%d to %s", m.ID[:1], m.Attempt, n.Process(m.TargetRID, m.TargetOwnerID, m.TargetLifecycle))
		switch {
		case m.InUserSpot:
			say("into %s", m.SpotID)
		case m.SpotID != "":
			say("into entry %s", m.SpotID)
		}
		if a.Wide {
			say("members=%d", m.Members)
		}
		if m.Prepared != nil {
			say("prepared %x/%d", m.Prepared.Root[:2], m.Prepared.Count)
		}
	}
	if a.FirstPending {
		say("first pending")
	}
	if a.Aggregate != nil {
		say("came by %x with %x/%d", a.Aggregate.ID[:1], a.Aggregate.Root[:2], a.Aggregate.Count)
	}
	if a.MembersLeft != 0 {
		say("left=%d", a.MembersLeft)
	}
	say("%s", n.Epoch(a.Epoch))
	return strings.Join(out, " ")
}
