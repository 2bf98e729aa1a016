package link

import (
	"bytes"
	"testing"

	"github.com/zlnode/zlnode/internal/wire"
)

// FuzzHandshake lets an attacker without the key talk to a dialler and to an
// acceptor that have it. He sees all that they send, passes it on, changes it,
// makes records of his own, and decides the order. Two laws:
//
//   - nobody panics, and whoever is closed does nothing more;
//   - who verifies a peer has seen the very hello that an honest half with the
//     key sent, and that half has seen his: there are no other partners.
//
// tape: each byte pair is an operation and its argument.
func FuzzHandshake(f *testing.F) {
	f.Add([]byte{0, 0, 1, 0, 0, 0, 1, 0})       // honest relay: d, a, d, a
	f.Add([]byte{0, 0, 1, 0, 2, 0, 2, 1, 2, 2}) // own records replayed
	f.Add([]byte{3, 1, 4, 1, 3, 6, 4, 2, 0, 0})
	f.Add([]byte{5, 20, 0, 0, 1, 0, 6, 30, 1, 0})
	f.Fuzz(func(t *testing.T, tape []byte) {
		cd, ca := testConfig("node-a"), testConfig("node-b")
		d, a := newDialler(t, cd, "", 1), newAcceptor(t, ca, 2)
		heard := map[*party][][]byte{}
		d.open(t)
		a.open(t)
		give := func(to *party, r []byte) {
			if to.State() == Admitted {
				return
			}
			sent := len(to.sent)
			was := to.State()
			heard[to] = append(heard[to], bytes.Clone(r))
			to.give(t, r)
			if was == Closed && (to.State() != Closed || len(to.sent) > sent) {
				t.Fatalf("%s did something after its end", to.cfg.RID)
			}
			if to.State() == Judging {
				other := d
				if to == d {
					other = a
				}
				checkPartners(t, to, other, heard)
				to.judge(t)
			}
		}
		for len(tape) >= 2 {
			op, arg := tape[0], int(tape[1])
			tape = tape[2:]
			seen := append(append([][]byte(nil), d.sent...), a.sent...)
			switch op % 7 {
			case 0: // pass on from the dialler
				if r := d.next(); r != nil {
					give(a, r)
				}
			case 1: // from the acceptor
				if r := a.next(); r != nil {
					give(d, r)
				}
			case 2: // replay anything to the acceptor, or to the dialler
				if arg%2 == 0 {
					give(a, seen[arg/2%len(seen)])
				} else {
					give(d, seen[arg/2%len(seen)])
				}
			case 3:
				give(a, forge(arg, tape))
			case 4:
				give(d, forge(arg, tape))
			case 5: // pass on from the dialler with one byte changed
				if r := bytes.Clone(d.next()); r != nil {
					r[arg%len(r)] ^= op | 1
					give(a, r)
				}
			case 6: // the same from the acceptor
				if r := bytes.Clone(a.next()); r != nil {
					r[arg%len(r)] ^= op | 1
					give(d, r)
				}
			}
		}
	})
}

// checkPartners fails if p verified a peer that is not the other honest half, as
// that half described itself to p and understood p.
func checkPartners(t *testing.T, p, other *party, heard map[*party][][]byte) {
	t.Helper()
	if len(heard[p]) < 1 || len(heard[other]) < 1 || len(other.sent) < 1 ||
		!bytes.Equal(heard[p][0], other.sent[0]) || !bytes.Equal(heard[other][0], p.sent[0]) {
		t.Fatalf("%s verified somebody who is not its partner", p.cfg.RID)
	}
}

// forge makes a record as somebody without the key can.
func forge(n int, tape []byte) []byte {
	var mac [32]byte
	copy(mac[:], tape)
	switch n % 6 {
	case 0:
		h := wire.Hello{MinVersion: 1, MaxVersion: 1, Mesh: []byte("eu"), RID: []byte("evil"), Lifecycle: 9, Nonce: mac, ExpectRID: []byte("node-a")}
		return h.AppendTo(nil)
	case 1:
		h := wire.Hello{MinVersion: 1, MaxVersion: 1, Mesh: []byte("eu"), RID: []byte("node-b"), Lifecycle: 5, Role: wire.RoleServer, Nonce: mac, ExpectRID: []byte("node-a")}
		return h.AppendTo(nil)
	case 2:
		a := wire.Admit{MAC: mac, Window: 8 << 20, Version: 1}
		return a.AppendTo(nil)
	case 3:
		r := wire.Reject{Reason: wire.RejectNotReady}
		return r.AppendTo(nil)
	case 4:
		p := wire.Probe{ID: 1}
		return p.AppendTo(nil)
	default:
		return bytes.Clone(tape) // most likely no record at all
	}
}
