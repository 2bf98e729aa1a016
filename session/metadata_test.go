package session_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/session"
)

func TestMetadataHoldsSortedPairs(t *testing.T) {
	m, err := session.NewMetadata(map[string]string{"trace": "abc", "a": "", "zone": "eu-1"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for k, v := range m.All() {
		got = append(got, string(k)+"="+string(v))
	}
	if want := []string{"a=", "trace=abc", "zone=eu-1"}; !slices.Equal(got, want) {
		t.Errorf("All = %q, want %q", got, want)
	}
	if v, ok := m.Lookup("zone"); !ok || string(v) != "eu-1" {
		t.Errorf("Lookup(zone) = %q, %v", v, ok)
	}
	if _, ok := m.Lookup("zon"); ok {
		t.Error("Lookup found a key that is not there")
	}
}

func TestAbsentMetadataHasNoEntries(t *testing.T) {
	m, err := session.NewMetadata(nil)
	if err != nil || m != nil {
		t.Fatalf("NewMetadata(nil) = %v, %v; want nil", m, err)
	}
	if _, ok := m.Lookup("k"); ok || m.Len() != 0 {
		t.Error("absent metadata has an entry")
	}
	for range m.All() {
		t.Error("absent metadata ranges over an entry")
	}
}

func TestRangingOverMetadataStopsWhenAsked(t *testing.T) {
	n := 0
	for range mustMetadata(t, session.Pair{Key: "a"}, session.Pair{Key: "b"}).All() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d entries after a break at the first", n)
	}
}

func TestMetadataThatCannotBeSentIsRefused(t *testing.T) {
	many := make([]session.Pair, 256)
	for i := range many {
		many[i].Key = fmt.Sprintf("%03d", i)
	}
	for name, c := range map[string]struct {
		pairs []session.Pair
		want  session.Reason
	}{
		"an empty key":        {[]session.Pair{{Value: "v"}}, session.ReasonMetadata},
		"a key twice":         {[]session.Pair{{Key: "k"}, {Key: "k"}}, session.ReasonMetadata},
		"keys out of order":   {[]session.Pair{{Key: "l"}, {Key: "k"}}, session.ReasonMetadata},
		"a key not UTF-8":     {[]session.Pair{{Key: "\xff"}}, session.ReasonMetadata},
		"a value not UTF-8":   {[]session.Pair{{Key: "k", Value: "\xff"}}, session.ReasonMetadata},
		"a key too long":      {[]session.Pair{{Key: strings.Repeat("k", 256)}}, session.ReasonMetadataSize},
		"1025 bytes encoded":  {[]session.Pair{{Key: "k", Value: strings.Repeat("v", 1025-5)}}, session.ReasonMetadataSize},
		"more than 255 pairs": {many, session.ReasonMetadataSize},
	} {
		got, err := session.AppendMetadata([]byte("kept"), c.pairs)
		if reasonOf(err) != c.want || string(got) != "kept" {
			t.Errorf("%s: AppendMetadata = %q, %v; want it refused for %v", name, got, err, c.want)
		}
	}
	if m := mustMetadata(t, session.Pair{Key: "k", Value: strings.Repeat("v", 1024-5)}); len(m) != session.MetadataMax {
		t.Errorf("the largest block has %d bytes", len(m))
	}
}

func TestMetadataOverTheLimitIsReceivedButNotSent(t *testing.T) {
	big := session.Metadata{1, 1, 'k'}
	big = binary.BigEndian.AppendUint16(big, 2000)
	big = append(big, strings.Repeat("v", 2000)...)
	p := session.Packet{Kind: session.KindSend, Name: []byte("x"), Meta: big}
	if _, err := session.Append(nil, &p); reasonOf(err) != session.ReasonMetadataSize {
		t.Errorf("Append: %v, want it refused", err)
	}
	got, err := session.Decode(rawFrame(&p))
	if err != nil {
		t.Fatal(err)
	}
	if v, ok := got.Meta.Lookup("k"); !ok || len(v) != 2000 {
		t.Errorf("the received value has %d bytes", len(v))
	}
}

// Blocks of random keys in random order are compared with a map.
func TestAKeyTwiceIsFoundInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 2000 {
		n := 1 + rng.IntN(40)
		block := session.Metadata{byte(n)}
		seen := map[string]bool{}
		unique := true
		for range n {
			key := fmt.Sprint(rng.IntN(400))
			unique = unique && !seen[key]
			seen[key] = true
			block = append(append(block, byte(len(key))), key...)
			block = append(block, 0, 0)
		}
		p := session.Packet{Kind: session.KindSend, Name: []byte("x"), Meta: block}
		_, err := session.Decode(rawFrame(&p))
		if (err == nil) != unique {
			t.Fatalf("block %q: %v, but its keys are unique: %v", block, err, unique)
		}
		if err != nil {
			refused++
		}
	}
	if refused == 0 || refused == 2000 {
		t.Errorf("%d of 2000 blocks were refused: the test shows nothing", refused)
	}
}

// hostileMetadata is the block whose duplicate check costs most: the most keys,
// each before all earlier ones.
func hostileMetadata() session.Metadata {
	block := session.Metadata{255}
	for i := range 255 {
		block = append(block, 2, byte('A'+(254-i)/26), byte('a'+(254-i)%26), 0, 0)
	}
	return block
}
