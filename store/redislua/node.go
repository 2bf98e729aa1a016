package redislua

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// page bounds what Redis gathers of a list in one go, while all others wait.
type page struct{ nodes, bytes int }

var pageMax = page{nodes: store.PageMax, bytes: store.PageBytesMax}

const (
	// listTriesMax bounds how often a list starts over because it changed meanwhile.
	// A list takes milliseconds and changes come with starts, ends and state changes
	// of nodes: more than a few in a row mean that the next one would not help.
	listTriesMax = 10
)

// PublishNode implements store.Store.
func (s *Store) PublishNode(ctx context.Context, l store.Lease, d store.Descriptor) (store.Reason, error) {
	if err := cmp.Or(l.Check(), d.Check(l)); err != nil {
		return 0, err
	}
	encoded, err := json.Marshal(d)
	if err != nil {
		return 0, fmt.Errorf("%w: descriptor of node %q: %w", store.ErrInvalid, d.RID, err)
	}
	if len(encoded) > store.DescriptorBytesMax {
		return 0, fmt.Errorf("%w: descriptor of node %q has %d bytes encoded: need at most %d",
			store.ErrInvalid, d.RID, len(encoded), store.DescriptorBytesMax)
	}
	k := &s.keys
	args := []string{l.RID, l.OwnerID, decimal(l.Gen), millis(keepDead), decimal(d.Revision), string(encoded), d.EntrySpotID}
	a, err := s.run(ctx, lua.NodePublish,
		[]string{k.epoch, k.node(l.RID), k.nodes, k.change, k.leases, k.entries, k.object(d.EntrySpotID)}, append(args, offers(&d)...)...)
	if err != nil {
		return 0, err
	}
	return a.reason, a.end()
}

// offers is what scripts ask of a descriptor, field by field.
func offers(d *store.Descriptor) []string {
	words := []string{
		"role", strconv.Itoa(int(d.Role)), "state", strconv.Itoa(int(d.State)), "weight", strconv.Itoa(d.Weight), "mesh", d.Mesh,
		"max:actors", strconv.Itoa(d.MaxActors), "max:spots", strconv.Itoa(d.MaxSpots),
	}
	for _, p := range d.Passes {
		words = append(words, "pass:"+p, "1")
	}
	for _, t := range d.ActorTypes {
		words = append(words, "offer:"+kind(store.Actor)+":"+t, "1")
	}
	for _, t := range d.SpotTypes {
		words = append(words, "offer:"+kind(t.Kind)+":"+t.Type, "1", "max:type:"+kind(t.Kind)+":"+t.Type, strconv.Itoa(t.Max))
	}
	return words
}

// RemoveNode implements store.Store.
func (s *Store) RemoveNode(ctx context.Context, l store.Lease) (store.Reason, error) {
	if err := l.Check(); err != nil {
		return 0, err
	}
	k := &s.keys
	a, err := s.run(ctx, lua.NodeRemove, []string{k.epoch, k.node(l.RID), k.nodes, k.change, k.entries}, l.RID, l.OwnerID, decimal(l.Gen))
	if err != nil {
		return 0, err
	}
	return a.reason, a.end()
}

// ListNodes implements store.Store. The list is read in pages and used only if the
// change number was the same in all of them.
func (s *Store) ListNodes(ctx context.Context, since uint64) (store.NodeList, error) {
	for range listTriesMax {
		list, steady, err := s.listOnce(ctx, since)
		if err != nil || steady {
			return list, err
		}
	}
	return store.NodeList{}, fmt.Errorf("%w: the node list of %s in Redis at %s changed during each of %d readings; try again",
		store.ErrUnavailable, s.keys.prefix, s.server.name, listTriesMax)
}

// listOnce reads the list once; steady is false if it changed meanwhile.
func (s *Store) listOnce(ctx context.Context, since uint64) (list store.NodeList, steady bool, err error) {
	change, rids, err := s.indexPage(ctx, since, "")
	if err != nil || (change == since && since != 0) {
		return store.NodeList{Change: since}, true, err
	}
	list = store.NodeList{Nodes: []store.Descriptor{}, Change: change}
	for len(rids) > 0 {
		for page := rids; len(page) > 0; {
			at, done, nodes, err := s.nodePage(ctx, page)
			if err != nil || at != change {
				return store.NodeList{}, false, err
			}
			list.Nodes = append(list.Nodes, nodes...)
			page = page[done:]
		}
		if len(rids) < s.page.nodes {
			break
		}
		var at uint64
		if at, rids, err = s.indexPage(ctx, 0, rids[len(rids)-1]); err != nil || at != change {
			return store.NodeList{}, false, err
		}
	}
	return list, true, nil
}

// indexPage returns the RIDs behind the given one, and none if the change number
// still is known; 0 is never known.
func (s *Store) indexPage(ctx context.Context, known uint64, behind string) (change uint64, rids []string, err error) {
	word := ""
	if known != 0 {
		word = decimal(known)
	}
	k := &s.keys
	a, err := s.run(ctx, lua.NodeIndex, []string{k.change, k.nodes}, word, behind, strconv.Itoa(s.page.nodes))
	if err != nil {
		return 0, nil, err
	}
	change = a.number("change number", math.MaxUint64)
	for a.more() {
		rids = append(rids, a.word())
	}
	return change, rids, a.end()
}

// nodePage returns the descriptors of the first RIDs and how many RIDs that were.
func (s *Store) nodePage(ctx context.Context, rids []string) (change uint64, done int, nodes []store.Descriptor, err error) {
	k := &s.keys
	keys := append(make([]string, 0, 3+len(rids)), k.change, k.leases, k.capacity)
	for _, rid := range rids {
		keys = append(keys, k.node(rid))
	}
	a, err := s.run(ctx, lua.NodePage, keys, append([]string{strconv.Itoa(s.page.bytes)}, rids...)...)
	if err != nil {
		return 0, 0, nil, err
	}
	change = a.number("change number", math.MaxUint64)
	done = int(a.number("count of nodes", uint64(len(rids))))
	if done == 0 {
		a.fail("progress", "0")
	}
	for a.more() {
		var d store.Descriptor
		encoded := a.word()
		if err := json.Unmarshal([]byte(encoded), &d); err != nil {
			a.fail("descriptor", encoded)
		}
		d.Actors = int(a.number("count of Actors", math.MaxInt32))
		d.Spots = int(a.number("count of Spots", math.MaxInt32))
		d.LeaseLeft = a.timeLeft()
		nodes = append(nodes, d)
	}
	return change, done, nodes, a.end()
}
