package link

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/zlnode/zlnode/internal/wire"
)

// label separates these MACs from every other use of the mesh key.
const label = "zlnode-link-1"

// The role byte in a MAC: whose admit record carries it.
const (
	roleDialler  = 'D'
	roleAcceptor = 'A'
)

// mac computes the MAC of role's admit record. The hellos carry their own
// lengths and the rest has a fixed size, so no two inputs have the same bytes.
func (h *half) mac(key []byte, role byte, window uint64, version uint16) (sum [sha256.Size]byte) {
	dialler, acceptor := h.ownHello, h.peerHello
	if h.own == roleAcceptor {
		dialler, acceptor = acceptor, dialler
	}
	var tail [10]byte
	binary.BigEndian.PutUint64(tail[:], window)
	binary.BigEndian.PutUint16(tail[8:], version)
	m := hmac.New(sha256.New, key)
	m.Write([]byte(label)) // writing to a hash never fails
	m.Write([]byte{role})
	m.Write(dialler)
	m.Write(acceptor)
	m.Write(tail[:])
	m.Sum(sum[:0])
	return sum
}

// verify reports whether a carries the MAC that the other role makes with one of
// the keys. The time it takes does not depend on the MAC's bytes.
func (h *half) verify(a *wire.Admit) bool {
	peer := byte(roleDialler)
	if h.own == roleDialler {
		peer = roleAcceptor
	}
	ok := false
	for _, key := range h.cfg.Keys {
		want := h.mac(key, peer, a.Window, a.Version)
		if hmac.Equal(want[:], a.MAC[:]) {
			ok = true
		}
	}
	return ok
}
