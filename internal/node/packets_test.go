package node

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestAPacketIsFoundByItsWholeName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table packetTable
		names := rapid.SliceOfN(rapid.StringN(0, 6, 8), 0, 60).Draw(t, "names")
		known := map[string]*packetType{}
		for _, name := range names {
			if name == "" { // it is refused at the registration
				continue
			}
			p := table.add(name)
			if known[name] == nil {
				known[name] = p
			}
		}
		for _, name := range append(names, rapid.String().Draw(t, "other"), "") {
			if got := table.find(name); got != known[name] || got != nil && got.name != name {
				t.Fatalf("found %v for %q", got, name)
			}
		}
	})
}

func BenchmarkFindPacket(b *testing.B) {
	var table packetTable
	names := make([]string, 40)
	for i := range names {
		names[i] = fmt.Sprintf("player.packet-%d", i)
		table.add(names[i])
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if table.find(names[i%len(names)]) == nil {
			b.Fatal("not found")
		}
	}
}
