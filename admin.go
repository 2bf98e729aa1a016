package zlnode

import (
	"context"
	"errors"
	"net"

	"github.com/zlnode/zlnode/internal/admin"
)

// AdminPort is a port for operators, on a loopback address: HTTP with JSON, by which the program
// `zlnode` and others on the machine look at the node, relocate, cordon and stop it, and change
// its RelocationLimits. docs/OPERATIONS.md describes it. Who has the Token may end the node.
type AdminPort struct {
	// Addr is "host:port" with 127.0.0.1, ::1 or localhost as its host; port 0 takes a free one
	// (Node.AdminAddr). Anything else is InvalidOperation, and one that cannot be opened
	// Unavailable. Default "": there is no such port.
	Addr string
	// Token is what each request must bring, 16 bytes at least, else InvalidOperation; take random
	// ones, of letters and digits.
	Token []byte
}

// open opens the port, if there is to be one.
func (p *AdminPort) open() (net.Listener, error) {
	if p.Addr == "" {
		return nil, nil
	}
	wrong := func(kind Kind, err error) error {
		return &Error{Kind: kind, Op: "start", Object: p.Addr, Text: "the admin port cannot be opened", Err: err}
	}
	if err := admin.CheckToken(p.Token); err != nil {
		return nil, wrong(InvalidOperation, err)
	}
	l, err := admin.Listen(p.Addr)
	switch {
	case errors.Is(err, admin.ErrAddress):
		return nil, wrong(InvalidOperation, err)
	case err != nil:
		return nil, wrong(Unavailable, err)
	}
	return l, nil
}

// AdminAddr returns the address of the port for operators, also of a node that has stopped; nil:
// there is none.
func (n *Node) AdminAddr() net.Addr {
	if port := n.admin.Load(); port != nil {
		return port.Addr()
	}
	return nil
}

// operated is the node as operators have it.
type operated struct{ *Node }

// Status implements admin.Node.
func (o operated) Status() admin.Status {
	s := o.Stats()
	passes, cordoned := o.inner.Cordoned()
	status := admin.Status{
		RID: o.RID(), Lifecycle: o.Lifecycle(), Version: o.version, State: o.State().String(), Ready: o.Ready(),
		Cordoned: cordoned, Passes: passes, Actors: s.Actors, Spots: s.Spots, Sessions: s.Sessions, Links: s.Peers,
		MovedOut: s.Moves.Out, MovedIn: s.Moves.In, Stuck: len(o.StuckObjects()),
	}
	if end, over := o.ShutdownResult(); over {
		status.ShutdownEnd = &admin.Ended{Outcome: end.Outcome.String(), Reason: end.Reason.String()}
	}
	return status
}

// Relocate implements admin.Node.
func (o operated) Relocate(ctx context.Context, r admin.RelocateRequest) (*admin.Result, error) {
	ask := Relocate{TargetVersion: r.TargetVersion, Timeout: r.Timeout()}
	switch r.Mode {
	case "", admin.ModeMaintenance:
	case admin.ModeRolling:
		ask.Mode = RollingUpdate
	default:
		return nil, &Error{Kind: InvalidOperation, Op: "relocate", Text: "mode is " + admin.ModeMaintenance + " or " + admin.ModeRolling}
	}
	got, err := o.Node.Relocate(ctx, ask)
	switch {
	case err == nil:
		return resultOf(&got), nil
	case KindOf(err) == DeadlineExceeded:
		return nil, nil
	}
	return nil, err
}

func resultOf(r *RelocateResult) *admin.Result {
	return &admin.Result{Outcome: r.Outcome.String(), Reason: r.Reason.String(), Text: r.Text}
}

// Relocation implements admin.Node.
func (o operated) Relocation() *admin.Relocation {
	p, ok := o.Node.Relocation()
	if !ok {
		return nil
	}
	r := &admin.Relocation{
		Running: p.Running, RunsOn: p.RunsOn, Mode: admin.ModeMaintenance, TargetVersion: p.TargetVersion, Began: p.Began, Deadline: p.Deadline,
		SafeToShutdown: p.SafeToShutdown,
	}
	if p.Mode == RollingUpdate {
		r.Mode = admin.ModeRolling
	}
	for _, u := range p.Units {
		r.Units = append(r.Units, admin.Units{Kind: u.Kind.String(), Total: u.Total, Left: u.Left, Moving: u.Moving, Blocked: u.Blocked, Lost: u.Lost})
	}
	for _, b := range p.Blocked {
		r.Blocked = append(r.Blocked, admin.BlockedUnit{Kind: b.Kind.String(), ID: b.ID, Reason: b.Reason.String(), Text: b.Text})
	}
	if !p.EstimatedEnd.IsZero() {
		r.EstimatedEnd = &p.EstimatedEnd
	}
	if p.Result != nil {
		r.Result = resultOf(p.Result)
	}
	return r
}

// Cordon implements admin.Node.
func (o operated) Cordon(ctx context.Context, passes []string) error {
	return o.Node.Cordon(ctx, Cordon{Passes: passes})
}

// Limits implements admin.Node.
func (o operated) Limits() admin.Limits { return admin.Limits(o.RelocationLimits()) }

// SetLimits implements admin.Node.
func (o operated) SetLimits(l admin.Limits) error { return o.SetRelocationLimits(RelocationLimits(l)) }

// Shutdown implements admin.Node. The port itself is not closed: it tells the end, and goes with
// the program's own call of Node.Shutdown.
func (o operated) Shutdown(ctx context.Context) error { return o.inner.Shutdown(ctx) }
