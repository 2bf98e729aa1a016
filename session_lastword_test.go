package zlnode_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/session"
)

// The Actor has moved, and its new owner says its last word of the binding before the client
// has been shown all of the old owner's: the client gets what both have pushed before.
func TestTheLastWordOfABindingComesBehindItsPushes(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		end := wire.BindingEnded(*m.replaced())
		m.new.send(m.end(m.new), m.push("2"), &end)
		m.new.quiet()
		m.old.send(m.push("1"), m.drained())
		m.shows("1", "2")
		m.client.write(request(3, "note", "3"))
		if kind, _, err := session.ParseErrorBody(m.client.answer(3).Payload); err != nil || kind != zlnode.NotFound {
			t.Errorf("%v %v", kind, err)
		}
		m.eventually("the session hears of it", func() bool { return slices.Contains(m.journal.of("notice"), "ended a avatar") })
	})
}

func TestASessionThatItsActorClosesBehindAMoveIsShownAllBefore(t *testing.T) {
	onEachUsualMove(t, func(t *testing.T, m *moving) {
		m.seal()
		r := m.replaced()
		ask := &wire.SessionClose{BindingName: r.BindingName, Text: []byte("banned")}
		m.new.send(m.end(m.new), m.push("2"), ask)
		m.new.quiet()
		m.old.send(m.push("1"), m.drained())
		m.shows("1", "2")
		if e := m.client.end(); !e.told || !strings.HasPrefix(e.diag, "kicked") {
			t.Errorf("it ended with %+v", e)
		}
	})
}
