//go:build invariants

package client_test

import (
	"testing"

	"github.com/zlnode/zlnode/client"
)

func TestAMessageKeptWithoutCloneIsSpoiled(t *testing.T) {
	var kept []byte // only callbacks touch it, one after the other
	later := make(chan string, 1)
	newServer(t, func(p *peer) {
		_ = p.write(push("a", "payload"))
		_ = p.write(push("b", "another"))
		silent(p)
	}).dial(t, client.Options{OnPush: func(m *client.Message) {
		if kept == nil {
			kept = m.Payload
			return
		}
		later <- string(kept)
	}})
	if <-later == "payload" {
		t.Error("a view is still good after its callback")
	}
}
