package redislua

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/store"
)

// auditLinesMax bounds an audit's report: a Store that differs in more places differs
// everywhere.
const auditLinesMax = 1000

// Audit implements store.Store: what stands beside the rows must follow from them.
func (s *Store) Audit(ctx context.Context) ([]string, error) {
	first, err := s.auditOnce(ctx)
	if err != nil || len(first) == 0 {
		return nil, err
	}
	second, err := s.auditOnce(ctx)
	if err != nil {
		return nil, err
	}
	var both []string
	for line := range first {
		if second[line] {
			both = append(both, line)
		}
	}
	slices.Sort(both)
	return both[:min(len(both), auditLinesMax)], nil
}

// books are the facts that stand beside the rows, each with its value.
type books map[string]string

func (b books) count(fact string, n int) {
	was, _ := strconv.Atoi(b[fact])
	if b[fact] = strconv.Itoa(was + n); b[fact] == "0" {
		delete(b, fact)
	}
}

func (b books) has(fact string) { b[fact] = "there" }

func (s *Store) auditOnce(ctx context.Context) (map[string]bool, error) {
	rows, err := s.allRows(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := s.storedBooks(ctx, rows)
	if err != nil {
		return nil, err
	}
	expected := booksOf(rows)
	lines := map[string]bool{}
	for fact, want := range expected {
		if stored[fact] != want {
			lines[fmt.Sprintf("%s: rows say %s, stored is %s", fact, want, orNothing(stored[fact]))] = true
		}
	}
	for fact, is := range stored {
		if _, known := expected[fact]; !known {
			lines[fmt.Sprintf("%s: rows say nothing, stored is %s", fact, is)] = true
		}
	}
	return lines, nil
}

func orNothing(s string) string {
	if s == "" {
		return "nothing"
	}
	return s
}

// booksOf computes what must stand beside the rows. It is written apart from the
// scripts, so that both agree only if both are right.
func booksOf(rows map[string]store.Authority) books {
	b := books{}
	for _, a := range rows {
		b.has("objects " + kind(a.Kind) + ":" + strconv.Itoa(len(a.Type)) + ":" + a.Type + ":" + a.ID)
		if !owned(&a) {
			b.has("row of Spot " + a.SpotID + " whose owner " + a.ID + " shares")
			continue
		}
		shares := a.SpotVersion != 0
		owner := process(a.RID, a.LeaseGen)
		if a.FirstPending {
			b.has("first " + a.ID)
		}
		if a.State == store.Creating {
			b.slots(owner+":reserved:", &a, 0)
			b.has("reserved " + owner + ":" + a.ID)
			b.has("request " + a.ID)
			continue
		}
		b.slots(owner+":active:", &a, 0)
		if !shares {
			b.has("owned " + owner + ":" + a.ID)
		}
		if a.InUserSpot {
			b.has("members " + a.SpotID + " " + a.ID)
			if !shares {
				b.count("capacity "+owner+":active:in:"+a.SpotID, 1)
			}
			if spot := rows[a.SpotID]; process(spot.RID, spot.LeaseGen) != owner {
				b.count("left "+a.SpotID, 1)
			}
		}
		if m := a.Move; m != nil {
			target := process(m.TargetRID, m.TargetLifecycle)
			b.slots(target+":reserved:", &a, m.Members)
			b.has("reserved " + target + ":" + a.ID)
			if a.InUserSpot {
				b.has("pending " + a.SpotID + " out:" + a.ID)
			}
			if m.InUserSpot {
				b.has("pending " + m.SpotID + " in:" + a.ID)
			}
		}
	}
	return b
}

func (b books) slots(counter string, a *store.Authority, members int) {
	counter = "capacity " + counter
	if a.Kind == store.Actor {
		b.count(counter+"actors", 1)
		return
	}
	b.count(counter+"spots", 1)
	b.count(counter+"type:"+kind(a.Kind)+":"+a.Type, 1)
	b.count(counter+"actors", members)
}

// storedBooks reads what stands beside the rows. What a row itself counts of others is
// among it, and an inventory only if its Spot neither moves nor came by one.
func (s *Store) storedBooks(ctx context.Context, rows map[string]store.Authority) (books, error) {
	b := books{}
	for _, a := range rows {
		b.count("left "+a.ID, a.MembersLeft)
	}
	err := s.attempt(ctx, func(ctx context.Context, client redis.UniversalClient) error {
		capacity, err := client.HGetAll(ctx, s.keys.capacity).Result()
		for field, n := range capacity {
			b["capacity "+field] = n
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: capacity of %s in Redis at %s: %w", store.ErrUnavailable, s.keys.prefix, s.server.name, err)
	}
	for _, name := range [...]string{"request", "first"} {
		ids, err := s.scan(ctx, name+":")
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			b.has(name + " " + id)
		}
	}
	inventories, err := s.scan(ctx, "inventory:")
	if err != nil {
		return nil, err
	}
	for _, id := range inventories {
		if a := rows[id]; a.Move == nil && a.Aggregate == nil {
			b.has("inventory " + id)
		}
	}
	sets := map[string]string{"objects": s.keys.objects, "owned": s.keys.owned, "reserved": s.keys.reserved}
	for name, key := range map[string]func(string) string{"members": s.keys.members, "pending": s.keys.pending} {
		ids, err := s.scan(ctx, name+":")
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			sets[name+" "+id] = key(id)
		}
	}
	for name, key := range sets {
		for behind := ""; ; {
			members, err := s.lexPage(ctx, key, "", behind, store.PageMax)
			if err != nil {
				return nil, err
			}
			for _, m := range members {
				b.has(name + " " + m)
			}
			if len(members) < store.PageMax {
				break
			}
			behind = members[len(members)-1]
		}
	}
	return b, nil
}

// allRows reads every row of the namespace, by its key: the lists are what is audited.
// An Actor that shares the owner of a Spot without row comes without owner.
func (s *Store) allRows(ctx context.Context) (map[string]store.Authority, error) {
	ids, err := s.scan(ctx, "object:")
	if err != nil {
		return nil, err
	}
	rows := make(map[string]store.Authority, len(ids))
	for page := range slices.Chunk(ids, store.PageMax) {
		read, err := s.rowsOnly(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, a := range read {
			rows[a.ID] = a
		}
	}
	for id, a := range rows {
		if spot := rows[a.SpotID]; !owned(&a) && owned(&spot) {
			share(&a, &spot)
			rows[id] = a
		}
	}
	return rows, nil
}

// scan returns the ids of which there is a key that begins so.
func (s *Store) scan(ctx context.Context, begin string) (ids []string, err error) {
	prefix := s.keys.prefix + begin
	for cursor := uint64(0); ; {
		var found []string
		err := s.attempt(ctx, func(ctx context.Context, client redis.UniversalClient) (err error) {
			server, err := s.holder(ctx, client)
			if err != nil {
				return err
			}
			found, cursor, err = server.Scan(ctx, cursor, globEscape(prefix)+"*", store.PageMax).Result()
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%w: keys %s* in Redis at %s: %w", store.ErrUnavailable, prefix, s.server.name, err)
		}
		for _, key := range found {
			id, ok := unescape(strings.TrimPrefix(key, prefix))
			if !ok {
				return nil, fmt.Errorf("%w: key %.80q", store.ErrCorrupt, key)
			}
			ids = append(ids, id)
		}
		if cursor == 0 {
			return ids, nil
		}
	}
}

// globEscape makes a SCAN pattern of what shall stand for itself.
func globEscape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "]", `\]`, "*", `\*`, "?", `\?`, "{", `\{`).Replace(s)
}

// unescape is the inverse of escape.
func unescape(s string) (string, bool) {
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", false
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		out = append(out, byte(c))
		i += 2
	}
	return string(out), true
}
