package storetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/zlnode/zlnode/store"
)

func (s *script) node(ctx context.Context, c *command) (string, error) {
	lease, err := s.newProcess(ctx, c)
	if err != nil {
		return "", err
	}
	published, err := s.publish(ctx, c)
	return lease + ", " + published, err
}

func (s *script) newProcess(ctx context.Context, c *command) (string, error) {
	s.starts++
	r, err := s.AcquireLease(ctx, c.id, fmt.Sprintf("%s-%d", c.id, s.starts), time.Hour)
	if err == nil && r.Reason == store.Applied {
		s.processes[c.id] = &scriptProcess{Lease: r.Lease, known: r.Epoch}
	}
	s.heard(r.Epoch)
	return s.names.Lease(r), err
}

// publish writes the descriptor that the command's options describe: max-actors,
// max-spots, max-rooms, entry, state, weight, actors (types), revision, cordon (a pass, or
// nothing).
func (s *script) publish(ctx context.Context, c *command) (string, error) {
	p := s.process(c.id)
	revision := p.desc.Revision + 1
	p.desc = store.Descriptor{
		RID: p.RID, Lifecycle: p.Gen, Mesh: "mesh-" + p.RID, Role: store.RoleServer,
		State: store.HostState(c.number("state", int(store.Serving))), Weight: c.number("weight", 100),
		MaxActors: c.number("max-actors", 0), MaxSpots: c.number("max-spots", 0), ActorTypes: strings.Split(c.get("actors", "player"), ","),
		SpotTypes: []store.SpotType{
			{Type: "cell", Kind: store.InstanceSpot}, {Type: "room", Kind: store.UserSpot, Max: c.number("max-rooms", 0)},
		},
		EntrySpotID: c.get("entry", p.RID+"-entry"), Revision: uint64(c.number("revision", int(revision))),
	}
	if c.has("no-entry") {
		p.desc.EntrySpotID = ""
	}
	if c.has("cordon") {
		p.desc.Cordoned, p.desc.Weight = true, 0
		if pass := c.get("cordon", ""); pass != "" {
			p.desc.Passes = []string{store.PassDigest(pass)}
		}
	}
	reason, err := s.PublishNode(ctx, p.Lease, p.desc)
	return reason.String(), err
}

func (s *script) renew(ctx context.Context, c *command) (string, error) {
	ttl := time.Hour
	if c.name == "expire" {
		ttl = time.Millisecond
		defer s.Elapse()
	}
	p := s.process(c.id)
	r, err := s.RenewLease(ctx, p.Lease, p.known, ttl)
	p.known = r.Epoch
	s.heard(r.Epoch)
	return s.names.Lease(r), err
}

func (s *script) leave(ctx context.Context, c *command) (string, error) {
	do := s.ReleaseLease
	if c.name == "unpublish" {
		do = s.RemoveNode
	}
	reason, err := do(ctx, s.process(c.id).Lease)
	return reason.String(), err
}

func (s *script) nodes(ctx context.Context, _ *command) (string, error) {
	l, err := s.ListNodes(ctx, 0)
	var out strings.Builder
	for _, n := range l.Nodes {
		fmt.Fprintf(&out, "\n  %s entry=%q actors=%d spots=%d", s.names.Process(n.RID, "", n.Lifecycle), n.EntrySpotID, n.Actors, n.Spots)
		if n.LeaseLeft <= 0 {
			out.WriteString(" dead")
		}
	}
	return out.String(), err
}

func (s *script) hasChanged(ctx context.Context, _ *command) (string, error) {
	l, err := s.ListNodes(ctx, s.change)
	s.change = l.Change
	return fmt.Sprint(l.Nodes != nil), err
}

func (s *script) held(ctx context.Context, c *command) (string, error) {
	p := s.process(c.id)
	owned, err := s.Held(ctx, p.RID, p.Gen, store.HeldOwned, "", store.PageMax)
	if err != nil {
		return "", err
	}
	reserved, err := s.Held(ctx, p.RID, p.Gen, store.HeldReserved, "", store.PageMax)
	return fmt.Sprintf("owned %v, reserved %v", owned, reserved), err
}

func (s *script) list(ctx context.Context, c *command) (string, error) {
	f := store.Filter{Kind: store.Kind(c.number("kind", 0)), Type: c.get("type", ""), Mesh: c.get("mesh", "")}
	var ids []string
	for cursor := ""; ; {
		p, err := s.List(ctx, f, cursor, store.PageMax)
		if err != nil {
			return "", err
		}
		for i := range p.Objects {
			ids = append(ids, p.Objects[i].ID)
		}
		if cursor = p.Next; cursor == "" {
			return fmt.Sprint(sorted(ids)), nil
		}
	}
}

func (s *script) newEpoch(ctx context.Context, c *command) (string, error) {
	switch c.name {
	case "mark":
		s.failover = s.Mark()
		return "", nil
	case "failover":
		s.failover()
	default:
		if _, err := s.RaiseEpoch(ctx); err != nil {
			return "", err
		}
	}
	// Whoever calls the Store learns the epoch.
	r, err := s.CancelCreation(ctx, "nothing", store.GenMax, store.GenMax)
	s.heard(r.Epoch)
	return s.names.Epoch(r.Epoch), err
}
