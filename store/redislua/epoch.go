package redislua

import (
	"context"

	"github.com/zlnode/zlnode/scripts/lua"
	"github.com/zlnode/zlnode/store"
)

// unnoted is the answer of a script in a history that was not noted. It ran nothing.
const unnoted = "EpochUnnoted"

// noteTriesMax bounds how often a call has a history noted: once is what it takes,
// twice if another failover comes in between.
const noteTriesMax = 3

// RaiseEpoch implements store.Store.
func (s *Store) RaiseEpoch(ctx context.Context) (store.Epoch, error) {
	return s.noteEpoch(ctx, "raise")
}

// noteEpoch has the server's history noted, if it is a new one.
func (s *Store) noteEpoch(ctx context.Context, how string) (store.Epoch, error) {
	k := &s.keys
	a, err := s.once(ctx, lua.EpochNote, []string{k.epoch, k.leaseCounter, k.objectCounter, k.versionCounter, k.change}, how)
	if err != nil {
		return 0, err
	}
	epoch := store.Epoch(a.gen("epoch"))
	return epoch, a.end()
}
