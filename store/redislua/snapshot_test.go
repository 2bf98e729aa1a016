package redislua

import (
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// snapshot reads everything that the namespace keeps.
func snapshot(t testing.TB, raw *redis.Client, k *keys) map[string]string {
	t.Helper()
	ctx := within(t)
	all := map[string]string{}
	must := func(value string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
	iter := raw.Scan(ctx, 0, globEscape(k.prefix)+"*", 1000).Iterator()
	for iter.Next(ctx) {
		key := iter.Val()
		switch kind := must(raw.Type(ctx, key).Result()); kind {
		case "string":
			all[key] = must(raw.Get(ctx, key).Result())
		case "hash":
			fields, err := raw.HGetAll(ctx, key).Result()
			must("", err)
			for field, value := range fields {
				all[key+" "+field] = value
			}
		case "zset":
			members, err := raw.ZRangeWithScores(ctx, key, 0, -1).Result()
			must("", err)
			for _, m := range members {
				all[key+" "+m.Member.(string)] = strconv.FormatFloat(m.Score, 'f', -1, 64)
			}
		default:
			t.Fatalf("%s is a %s", key, kind)
		}
	}
	must("", iter.Err())
	return all
}

// difference tells what two snapshots differ in, "" if in nothing.
func difference(before, after map[string]string) string {
	var b strings.Builder
	for key, value := range before {
		if now, there := after[key]; !there || now != value {
			b.WriteString("\n- " + key + ": " + value)
		}
	}
	for key, value := range after {
		if was, there := before[key]; !there || was != value {
			b.WriteString("\n+ " + key + ": " + value)
		}
	}
	return b.String()
}
