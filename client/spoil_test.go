//go:build invariants

package client_test

import (
	"testing"

	"github.com/zlnode/zlnode/client"
)

func TestAMessageKeptWithoutCloneIsSpoiled(t *testing.T) {
	kept := make(chan []byte, 2)
	newServer(t, func(p *peer) {
		_ = p.write(push("a", "payload"))
		_ = p.write(push("b", "payload"))
		silent(p)
	}).dial(t, client.Options{OnPush: func(m *client.Message) { kept <- m.Payload }})
	first := <-kept
	<-kept
	if string(first) == "payload" {
		t.Error("a view is still good after its callback")
	}
}
