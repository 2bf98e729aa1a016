package node

import (
	"encoding/json"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// NoticeKind says what a Session is told of.
type NoticeKind uint8

// The kinds. The first two are about a binding, for the application and the client; the others
// about the whole Session, for the client alone.
const (
	NoticeMoved    NoticeKind = iota + 1 // the Actor is at another node now, with its binding
	NoticeEnded                          // the binding is over: the Actor, or the way to it, is gone
	NoticeKicked                         // the application, or another Session, ends this one
	NoticeStopping                       // its node stops
	noticeKindEnd
)

var noticeKindText = [noticeKindEnd]string{NoticeMoved: "moved", NoticeEnded: "ended", NoticeKicked: "kicked", NoticeStopping: "stopping"}

// String returns the kind as it is on the wire.
func (k NoticeKind) String() string {
	if k == 0 || k >= noticeKindEnd {
		return "unknown"
	}
	return noticeKindText[k]
}

// Notice is what a Session is told of a binding, or its client of the Session.
type Notice struct {
	Kind  NoticeKind
	Actor ActorRef // zero if it is about the Session
	Type  string   // of the Actor
	Text  string
}

// noticeBody is a Notice as a client gets it.
type noticeBody struct {
	Notice    string `json:"notice"`
	ActorType string `json:"actor_type,omitempty"`
	Actor     string `json:"actor,omitempty"`
	Text      string `json:"text,omitempty"`
}

// notify tells the client and the application, as far as the Session's type wants it. From
// any goroutine. What does not fit is counted as dropped: so it is if noticesMax wait for the
// Session's turn.
func (s *sessionConn) notify(notice *Notice) {
	t := s.port.typ
	if t.NoticePacket != "" {
		s.sendNotice(notice)
	}
	if t.OnNotice == nil || notice.Kind > NoticeEnded {
		return
	}
	if s.notices.Add(1) > noticesMax {
		s.notices.Add(-1)
		s.node.counters.dropped.Add(1)
		return
	}
	told := *notice
	if !s.inTurn(func(c *SessionCall) {
		s.notices.Add(-1)
		s.callback("OnNotice", clock.Never, func() { t.OnNotice(c, s.instance, told) })
	}) {
		s.notices.Add(-1)
	}
}

// sendNotice sends the client a packet. A client that takes none is gone or is being closed.
func (s *sessionConn) sendNotice(n *Notice) {
	body, err := json.Marshal(noticeBody{n.Kind.String(), n.Type, n.Actor.ID, n.Text})
	if err == nil { // as it always is: there is nothing but text
		_ = s.send("", nil, s.port.typ.NoticePacket, uint8(session.CodecJSON), nil, body)
	}
}

// inTurn runs f in the Session's turn, behind what waits there. False: the Session is over, or
// has too much of it. From any goroutine.
func (s *sessionConn) inTurn(f func(*SessionCall)) bool {
	return s.conn.Post(func(*engine.Conn) { s.mailbox().PushControl(packet{run: f}) }) == nil
}

var errCallbackLate = &Error{Kind: errkind.DeadlineExceeded, Text: "its deadline came before its turn"}

// callback runs application code of the Session that no packet asks for, in its turn, unless
// it is too late. A failure is logged and counted.
func (s *sessionConn) callback(what string, deadline clock.Mono, f func()) {
	err := errCallbackLate
	if !clock.Now().Reached(deadline) {
		err = s.start()
	}
	if err == nil {
		err = guard(s.node, "session type", s.port.typ.Name, func() error {
			f()
			return nil
		})
	}
	if err != nil {
		s.node.counters.failedCallbacks.Add(1)
		if left, ok := s.node.said.callbackFailed.Take(clock.Now()); ok {
			s.node.log.Warn().Uint64("session", s.id).Str("callback", what).Str("error", clip(err.Error())).Int64("left_out", left).
				Msg("a session's callback failed")
		}
	}
}
