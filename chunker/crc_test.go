package chunker

import (
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

func TestCombinedChecksumsAreThatOfTheWhole(t *testing.T) {
	table := crc32.MakeTable(crc32.Castagnoli)
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")
		at := rapid.IntRange(0, len(p)).Draw(t, "at")
		first, second := crc32.Checksum(p[:at], table), crc32.Checksum(p[at:], table)
		if got, want := Combine(first, second, uint64(len(p)-at)), crc32.Checksum(p, table); got != want {
			t.Fatalf("%x, want %x", got, want)
		}
		if CRC(p) != crc32.Checksum(p, table) {
			t.Fatal("CRC is not that of hash/crc32")
		}
	})
}

// What no memory holds is combined like what memory does: n bytes and m more are n+m.
func TestChecksumsOfAnyLengthCombine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<62).Draw(t, "n")
		m := rapid.Uint64Range(0, 1<<62).Draw(t, "m")
		crc := rapid.Uint32().Draw(t, "crc")
		if got, want := Combine(Combine(crc, 0, n), 0, m), Combine(crc, 0, n+m); got != want {
			t.Fatalf("%x, want %x", got, want)
		}
	})
}
