package redislua

import (
	"context"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/store"
)

// audit fails the test if anything in the namespace does not follow from its rows.
func audit(t testing.TB, s *Store) {
	t.Helper()
	if client, err := s.begin(); client == nil || err != nil {
		return // a test closed it
	}
	s.calls.Done()
	lines, err := s.Audit(within(t))
	if err != nil {
		t.Errorf("audit: %v", err)
	}
	for _, line := range lines {
		t.Errorf("audit: %s", line)
	}
}

// TestAuditFindsWhatDoesNotFollowFromTheRows plants a difference of each sort.
func TestAuditFindsWhatDoesNotFollowFromTheRows(t *testing.T) {
	onBoth(t, func(t *testing.T, url string) {
		raw := rawClient(t, url)
		for i := 0; ; i++ {
			s := openStore(t, url)
			all := populate(t, s).differences(&s.keys)
			audit(t, s)
			if i == len(all) {
				return
			}
			if err := all[i].plant(within(t), raw); err != nil {
				t.Fatal(err)
			}
			if lines, err := s.Audit(within(t)); err != nil || !slices.Contains(lines, all[i].line) {
				t.Errorf("audit says %q, %v; want %q among it", lines, err, all[i].line)
			}
		}
	})
}

// plantedLine is a thing to plant and what the audit must say of it.
type plantedLine struct {
	line  string
	plant func(context.Context, *redis.Client) error
}

func (w populated) differences(k *keys) []plantedLine {
	a, b, dead := process(w.a.RID, w.a.Gen), process(w.b.RID, w.b.Gen), process("node-x", 1)
	count := func(field, n string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error { return c.HSet(ctx, k.capacity, field, n).Err() }
	}
	del := func(field string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error { return c.HDel(ctx, k.capacity, field).Err() }
	}
	add := func(key, member string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error {
			return c.ZAdd(ctx, key, redis.Z{Member: member}).Err()
		}
	}
	rem := func(key, member string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error { return c.ZRem(ctx, key, member).Err() }
	}
	set := func(key string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error { return c.Set(ctx, key, "x", 0).Err() }
	}
	gone := func(key string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error { return c.Del(ctx, key).Err() }
	}
	field := func(key string, words ...string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error { return c.HSet(ctx, key, words).Err() }
	}
	return []plantedLine{
		{"capacity " + a + ":active:actors: rows say 4, stored is 5", count(a+":active:actors", "5")},
		{"capacity " + a + ":active:actors: rows say 4, stored is nothing", del(a + ":active:actors")},
		{"capacity " + a + ":active:spots: rows say 2, stored is 1", count(a+":active:spots", "1")},
		{"capacity " + a + ":active:type:3:room: rows say 1, stored is 2", count(a+":active:type:3:room", "2")},
		{"capacity " + a + ":reserved:actors: rows say 1, stored is -1", count(a+":reserved:actors", "-1")},
		{"capacity " + b + ":reserved:actors: rows say 2, stored is 1", count(b+":reserved:actors", "1")},
		{"capacity " + a + ":active:in:shy: rows say 2, stored is 1", count(a+":active:in:shy", "1")},
		{"capacity " + dead + ":active:actors: rows say nothing, stored is 1", count(dead+":active:actors", "1")},
		{"owned " + a + ":entry: rows say there, stored is nothing", rem(k.owned, a+":entry")},
		{"owned " + a + ":ghost: rows say nothing, stored is there", add(k.owned, a+":ghost")},
		{"owned " + a + ":passenger: rows say nothing, stored is there", add(k.owned, a+":passenger")},
		{"reserved " + b + ":moving: rows say there, stored is nothing", rem(k.reserved, b+":moving")},
		{"reserved " + a + ":ghost: rows say nothing, stored is there", add(k.reserved, a+":ghost")},
		{"members wide passenger: rows say there, stored is nothing", rem(k.members("wide"), "passenger")},
		{"members wide entry: rows say nothing, stored is there", add(k.members("wide"), "entry")},
		{"members nowhere ghost: rows say nothing, stored is there", add(k.members("nowhere"), "ghost")},
		{"pending shy out:moving: rows say there, stored is nothing", rem(k.pending("shy"), "out:moving")},
		{"pending there in:moving: rows say there, stored is nothing", rem(k.pending("there"), "in:moving")},
		{"pending there in:ghost: rows say nothing, stored is there", add(k.pending("there"), "in:ghost")},
		{"objects 1:6:player:entry: rows say there, stored is nothing", rem(k.objects, "1:6:player:entry")},
		{"objects 1:6:player:ghost: rows say nothing, stored is there", add(k.objects, "1:6:player:ghost")},
		{"request creating: rows say there, stored is nothing", gone(k.request("creating"))},
		{"request entry: rows say nothing, stored is there", set(k.request("entry"))},
		{"first quest: rows say there, stored is nothing", gone(k.first("quest"))},
		{"first entry: rows say nothing, stored is there", set(k.first("entry"))},
		{"left shy: rows say 2, stored is 1", field(k.object("shy"), "left", "1")},
		{"left there: rows say nothing, stored is 1", field(k.object("there"), "left", "1")},
		{"row of Spot wide whose owner passenger shares: rows say there, stored is nothing", gone(k.object("wide"))},
		{"inventory wide: rows say nothing, stored is there", field(k.inventory("wide"), "digest", "chunk")},
		{
			"owned " + b + ":entry: rows say there, stored is nothing",
			field(k.object("entry"), "rid", w.b.RID, "owner", w.b.OwnerID, "lease_gen", decimal(w.b.Gen)),
		},
	}
}

// populated is a namespace in which each sort of row and of what stands beside it occurs.
type populated struct{ a, b store.Lease }

func populate(t *testing.T, s *Store) populated {
	t.Helper()
	w := populated{serve(t, s, "node-a"), serve(t, s, "node-b")}
	for _, l := range []store.Lease{w.a, w.b} {
		d := describe(l)
		d.SpotTypes = []store.SpotType{{Type: "quest", Kind: store.InstanceSpot}, {Type: "room", Kind: store.UserSpot}}
		d.Revision = 2
		if reason, err := s.PublishNode(within(t), l, d); err != nil || reason != store.Applied {
			t.Fatalf("PublishNode = %v, %v", reason, err)
		}
	}
	at := func(l store.Lease) *scene { return &scene{t, s, l} }
	spot := func(l store.Lease, id string, kind store.Kind, edit func(*store.Reserve)) store.Authority {
		r := at(l).request(id)
		r.Kind, r.Type = kind, map[store.Kind]string{store.UserSpot: "room", store.InstanceSpot: "quest"}[kind]
		edit(&r)
		return at(l).finish(at(l).reserve(r, store.Applied), r.Op, store.Created, store.Applied)
	}
	applied := func(c store.Change, err error) store.Authority {
		t.Helper()
		if err != nil || c.Reason != store.Applied {
			t.Fatalf("%+v, %v; want Applied", c, err)
		}
		return c.Record
	}
	move := func(a store.Authority, to store.Lease, spot string) store.Authority {
		t.Helper()
		r := moveAlone(a, to)
		r.SpotID, r.InUserSpot = spot, spot != ""
		return applied(s.ReserveMove(within(t), r))
	}
	shy := spot(w.a, "shy", store.UserSpot, func(*store.Reserve) {})
	spot(w.a, "wide", store.UserSpot, func(r *store.Reserve) { r.Wide = true })
	spot(w.b, "there", store.UserSpot, func(*store.Reserve) {})
	spot(w.a, "quest", store.InstanceSpot, func(r *store.Reserve) { r.First = []byte("message") })
	at(w.a).create("entry")
	at(w.a).reserve(at(w.a).request("creating"), store.Applied)
	enter := func(id, spot string) store.Authority {
		t.Helper()
		a, _ := at(w.a).create(id)
		return applied(s.ChangeSpot(within(t), store.ChangeSpot{Fence: fence(a), Op: newOp(), SpotID: spot, InUserSpot: true}))
	}
	enter("passenger", "wide")
	enter("left", "shy")
	moving := enter("moving", "shy")
	shy = move(shy, w.b, "")
	applied(s.CommitMove(within(t), commitOf(shy, w.b)))
	move(moving, w.b, "there")
	at(w.b).reserve(at(w.b).request("creating too"), store.Applied)
	return w
}
