package redislua

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// audit compares everything in the namespace with its rows: each Creating row has a
// request, a reserved slot and its place in the list of reservations, each Ready row
// an active slot and its place in the list of owned objects, and nothing else has.
func audit(t testing.TB, c *redis.Client, k *keys) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	found, err := c.Keys(ctx, strings.NewReplacer("{", "\\{", "}", "\\}").Replace(k.prefix)+"*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slots, reserved, owned, requests := map[string]string{}, map[string]bool{}, map[string]bool{}, map[string]bool{}
	counts := map[string]int{}
	for _, key := range found {
		escaped, isRow := strings.CutPrefix(key, k.prefix+"actor:")
		if !isRow {
			continue
		}
		row, err := c.HGetAll(ctx, key).Result()
		if err != nil {
			t.Fatal(err)
		}
		process := row["rid"] + ":" + row["lease_gen"] + ":"
		switch row["state"] {
		case "1":
			counts[process+"reserved"]++
			reserved[process+unescape(escaped)] = true
			requests[k.prefix+"request:"+escaped] = true
		case "2":
			counts[process+"active"]++
			owned[process+unescape(escaped)] = true
			if row["deadline"] != "" || row["hash"] != "" {
				t.Errorf("Ready row %s keeps parts of its creation: %v", key, row)
			}
		default:
			t.Errorf("row %s has state %q", key, row["state"])
		}
	}
	for field, n := range counts {
		slots[field] = fmt.Sprint(n)
	}
	if got := c.HGetAll(ctx, k.capacity).Val(); !maps.Equal(got, slots) {
		t.Errorf("slots in use are %v; rows need %v", got, slots)
	}
	wantMembers(t, c, k.reserved, reserved)
	wantMembers(t, c, k.owned, owned)
	for _, key := range found {
		if strings.HasPrefix(key, k.prefix+"request:") && !requests[key] {
			t.Errorf("%s has no Creating row", key)
		}
		delete(requests, key)
	}
	for key := range requests {
		t.Errorf("a Creating row has no %s", key)
	}
}

func wantMembers(t testing.TB, c *redis.Client, key string, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for _, member := range c.ZRange(context.WithoutCancel(t.Context()), key, 0, -1).Val() {
		got[member] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s lists %v; rows are %v", key, got, want)
	}
}

// unescape is the inverse of escape, which only tests need.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' {
			var c byte
			_, _ = fmt.Sscanf(s[i+1:i+3], "%02X", &c)
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
