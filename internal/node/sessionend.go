package node

import (
	"fmt"

	"github.com/zlnode/zlnode/engine"
	"github.com/zlnode/zlnode/internal/buf"
	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

// DisconnectCode says in one word why a Session ended.
type DisconnectCode uint8

// The codes. ConnectionLost is the zero value, and stands for what has no code of its own.
const (
	ConnectionLost  DisconnectCode = iota // the socket failed, or an Actor's move took too long
	ClientClosed                          // the client said so, or ended its side in order
	ClientIdle                            // no application input for too long
	ClientSilent                          // nothing at all was heard for too long
	ClientSlow                            // it did not take its messages
	ClientFault                           // it sent what no client may send
	OverLimit                             // a frame too large or too slow, or too much at once
	SessionRefused                        // OnConnect or Authenticate failed, or no authentication came in time
	SessionKicked                         // the application closed it
	SessionReplaced                       // another Session took its place
	NodeStopping                          // this node shuts down
	SessionResumed                        // its client has come back, and goes on with another Session
)

var disconnectNames = [...]string{
	ConnectionLost: "ConnectionLost", ClientClosed: "ClientClosed", ClientIdle: "ClientIdle", ClientSilent: "ClientSilent",
	ClientSlow: "ClientSlow", ClientFault: "ClientFault", OverLimit: "OverLimit", SessionRefused: "SessionRefused",
	SessionKicked: "SessionKicked", SessionReplaced: "SessionReplaced", NodeStopping: "NodeStopping",
	SessionResumed: "SessionResumed",
}

// String returns the code's name, fit for logs and metric labels.
func (c DisconnectCode) String() string {
	if int(c) < len(disconnectNames) {
		return disconnectNames[c]
	}
	return fmt.Sprintf("DisconnectCode(%d)", uint8(c))
}

// Disconnect tells why a Session ended.
type Disconnect struct {
	Code DisconnectCode
	Text string // for logs; may be empty
}

// String returns "Code" or "Code: text".
func (d Disconnect) String() string {
	if d.Text == "" {
		return d.Code.String()
	}
	return d.Code.String() + ": " + d.Text
}

// disconnectOf says what the end of a connection means for its Session.
func disconnectOf(r engine.CloseReason) Disconnect {
	d := Disconnect{Text: r.Text}
	if d.Text == "" && r.Err != nil {
		d.Text = clip(r.Err.Error())
	}
	switch r.Code {
	case engine.PeerClosed:
		d.Code = ClientClosed
	case engine.Idle:
		d.Code = ClientIdle
	case engine.PeerSilent:
		d.Code = ClientSilent
	case engine.OutFull, engine.OutStalled:
		d.Code = ClientSlow
	case engine.ProtocolError:
		d.Code = ClientFault
	case engine.FrameTooLarge, engine.FrameTimeout, engine.RateExceeded:
		d.Code = OverLimit
	case engine.Rejected, engine.HelloTimeout:
		d.Code = SessionRefused
	case engine.Requested:
		d.Code = SessionKicked
	case engine.Replaced:
		d.Code = SessionReplaced
	case engine.Draining, engine.EngineClosed:
		d.Code = NodeStopping
	case engine.TransportError:
	}
	return d
}

// count counts an end that somebody may want to look after.
func (d Disconnect) count(n *counters) {
	switch d.Code {
	case ClientFault, OverLimit:
		n.sessionFaults.Add(1)
	case SessionRefused:
		n.sessionsRefused.Add(1)
	default:
	}
}

// end tells the client why and closes after what is queued. Loop only.
func (s *sessionConn) end(reason session.CloseReason, diag string) {
	s.endAs(reason, closeCode(reason), diag)
}

// endAs is end with a code of its own for the application.
func (s *sessionConn) endAs(reason session.CloseReason, code engine.CloseCode, diag string) {
	if s.closing {
		return
	}
	s.closing = true
	s.conn.DisarmTimer()
	closeSessionAs(s, reason, code, diag)
}

// closeSession closes behind what is queued for the client, with the closing frame as the
// last. From any goroutine.
func closeSession(s *sessionConn, reason session.CloseReason, diag string) {
	closeSessionAs(s, reason, closeCode(reason), diag)
}

// closeSessionAs is closeSession with a code of its own for the application, which can tell
// more ends apart than a client.
func closeSessionAs(s *sessionConn, reason session.CloseReason, code engine.CloseCode, diag string) {
	why := engine.CloseReason{Code: code, Text: diag}
	if code != engine.PeerSilent { // who is silent may have lost its connection
		s.meant(why)
	}
	s.flushOut()
	closeConn(s.conn, reason, diag, why)
}

// kick ends the Session for a reason that has a word, and a text of the application that may
// be empty. What is queued for the client is sent before.
func (s *sessionConn) kick(code engine.CloseCode, word, text string) {
	s.notify(&Notice{Kind: NoticeKicked, Text: text})
	if text != "" {
		word += ": " + text
	}
	why := engine.CloseReason{Code: code, Text: text}
	s.meant(why)
	s.flushOut()
	closeConn(s.conn, session.ServerDrain, word, why)
}

// closeConn sends the closing frame and closes, why is what the application is told. From any
// goroutine.
func closeConn(c *engine.Conn, reason session.CloseReason, diag string, why engine.CloseReason) {
	c.CloseWith(buf.Copy(session.AppendClosing(nil, reason, diag)), why)
}

// closeCode is the engine's word for a session's reason.
func closeCode(r session.CloseReason) engine.CloseCode {
	switch r {
	case session.ClientClose:
		return engine.PeerClosed
	case session.IdleTimeout:
		return engine.Idle
	case session.HeartbeatTimeout:
		return engine.PeerSilent
	case session.ServerDrain:
		return engine.Draining
	case session.ProtocolError:
		return engine.ProtocolError
	case session.TransportError:
		return engine.TransportError
	}
	return engine.Requested
}

// refusalReason is what a client is told whose Session is refused: that it may come again,
// if it may be otherwise soon.
func refusalReason(kind errkind.Kind) session.CloseReason {
	switch kind {
	case errkind.Unavailable, errkind.CapacityExceeded, errkind.DeadlineExceeded, errkind.ShuttingDown, errkind.InternalFailure, errkind.DataLost:
		return session.ServerDrain
	default:
		return session.ProtocolError
	}
}
