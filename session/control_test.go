package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/session"
)

func decode(tb testing.TB, frame []byte) session.Packet {
	tb.Helper()
	p, err := session.Decode(frame)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestHeartbeatsAreTheFramesThatForeignConnectorsSend(t *testing.T) {
	seen := 0
	for _, v := range loadVectors[validVector](t, "valid.json") {
		switch v.Header.Name {
		case session.PingName:
			seen |= 1
			if string(session.PingFrame()) != string(unhex(t, v.Hex)) {
				t.Errorf("PingFrame = %x", session.PingFrame())
			}
		case session.PongName:
			seen |= 2
			if string(session.PongFrame()) != string(unhex(t, v.Hex)) {
				t.Errorf("PongFrame = %x", session.PongFrame())
			}
		}
	}
	if seen != 3 {
		t.Fatal("the vectors lack a ping or a pong")
	}
}

func TestSessionClosingCarriesReasonAndText(t *testing.T) {
	for reason := session.ClientClose; reason <= session.TransportError; reason++ {
		p := decode(t, session.AppendClosing(nil, reason, "maintenance"))
		got, diag, err := session.ParseClosing(&p)
		if err != nil || got != reason || diag != "maintenance" {
			t.Errorf("%v: got %v %q %v", reason, got, diag, err)
		}
	}
	if want := unhex(t, "00140000000ff20500000f73657373696f6e2d636c6f73696e670104000b6d61696e74656e616e6365"); string(session.AppendClosing(nil, session.ServerDrain, "maintenance")) != string(want) {
		t.Error("the frame differs from the one that foreign connectors accept")
	}
}

func TestTheTextOfSessionClosingIsCutAtARune(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("é", 300):       strings.Repeat("é", 256),
		strings.Repeat("x", 511) + "€": strings.Repeat("x", 511),
		"broken \xff\xfe text":         "broken \uFFFD text",
	} {
		p := decode(t, session.AppendClosing(nil, session.ProtocolError, text))
		if _, diag, err := session.ParseClosing(&p); err != nil || diag != want {
			t.Errorf("%.12q: arrived as %q, %v", text, diag, err)
		}
	}
}

func TestAnUnknownCloseReasonIsSentAsOneThatClientsKnow(t *testing.T) {
	p := decode(t, session.AppendClosing(nil, 99, ""))
	if reason, _, err := session.ParseClosing(&p); err != nil || reason != session.TransportError {
		t.Errorf("reason %v, %v", reason, err)
	}
}

func TestOnlySessionClosingParsesAsSuch(t *testing.T) {
	ping := decode(t, session.PingFrame())
	if _, _, err := session.ParseClosing(&ping); reasonOf(err) != session.ReasonControl {
		t.Errorf("a ping: %v", err)
	}
}

func TestAnErrorFrameAnswersItsRequest(t *testing.T) {
	req := fullPacket(t)
	frame, err := session.AppendError(nil, &req, errkind.NotFound, "no \"such\" thing\n\\ é\x00")
	if err != nil {
		t.Fatal(err)
	}
	p := decode(t, frame)
	if p.Kind != session.KindError || p.Codec != session.CodecJSON || p.Seq != req.Seq ||
		string(p.Correlation) != string(req.Correlation) || len(p.Name) != 0 {
		t.Errorf("header %+v", p)
	}
	var body map[string]string
	if err := json.Unmarshal(p.Payload, &body); err != nil {
		t.Fatalf("%s: %v", p.Payload, err)
	}
	if len(body) != 2 || body["code"] != "not_found" || body["message"] != "no \"such\" thing\n\\ é\x00" {
		t.Errorf("body %q", body)
	}
	kind, message, err := session.ParseErrorBody(p.Payload)
	if err != nil || kind != errkind.NotFound || message != body["message"] {
		t.Errorf("ParseErrorBody = %v %q %v", kind, message, err)
	}
}

func TestAnErrorFrameIsTheOneThatForeignConnectorsAccept(t *testing.T) {
	req := session.Packet{Kind: session.KindRequest, Name: []byte("err"), Seq: 2, Correlation: []byte("3")}
	got, err := session.AppendError(nil, &req, errkind.NotFound, "no such thing")
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range loadVectors[validVector](t, "valid.json") {
		if v.Note == "error" {
			if string(got) != string(unhex(t, v.Hex)) {
				t.Errorf("frame %x, want %s", got, v.Hex)
			}
			return
		}
	}
	t.Fatal("the vectors lack an error")
}

func TestCodeAndMessageOfAnErrorAreNeverBlankAndNeverLong(t *testing.T) {
	for _, text := range []string{"", " \t\n", strings.Repeat("é", 5000), "\xff"} {
		body := session.AppendErrorBody(nil, errkind.Kind(77), text)
		kind, message, err := session.ParseErrorBody(body)
		if err != nil || kind != errkind.InternalFailure || strings.TrimSpace(message) == "" || len(message) > 512 {
			t.Errorf("%.9q: %v %q %v", text, kind, message, err)
		}
	}
}

func TestAnErrorBodyOfAnotherServerIsUnderstoodOrRefused(t *testing.T) {
	kind, message, err := session.ParseErrorBody([]byte(`{"message":"m","code":"teapot","more":1}`))
	if err != nil || kind != errkind.InternalFailure || message != "teapot: m" {
		t.Errorf("unknown code: %v %q %v", kind, message, err)
	}
	for _, body := range []string{``, `{}`, `[]`, `{"code":"not_found"}`, `{"message":"m"}`, `{"code":1,"message":"m"}`, `{"code":"not_found","message":"m"`} {
		if _, _, err := session.ParseErrorBody([]byte(body)); reasonOf(err) != session.ReasonErrorBody {
			t.Errorf("%s: %v, want it refused", body, err)
		}
	}
}

func TestOnlySendsAndRequestsOfAClientReachAHandler(t *testing.T) {
	for name, c := range map[string]struct {
		p     session.Packet
		want  session.Inbound
		event session.Event
	}{
		"send":            {session.Packet{Kind: session.KindSend, Name: []byte("x")}, session.InboundDeliver, session.Event{Kind: session.EventInput}},
		"request":         {session.Packet{Kind: session.KindRequest, Name: []byte("x"), Seq: 1}, session.InboundDeliver, session.Event{Kind: session.EventInput}},
		"ping":            {decode(t, session.PingFrame()), session.InboundPing, session.Event{Kind: session.EventPing}},
		"pong":            {decode(t, session.PongFrame()), session.InboundPong, session.Event{Kind: session.EventPong}},
		"closing":         {decode(t, session.AppendClosing(nil, session.ClientClose, "")), session.InboundClosing, session.Event{Kind: session.EventClose, Reason: session.ClientClose}},
		"response":        {session.Packet{Kind: session.KindResponse, Seq: 1}, session.InboundViolation, session.Event{Kind: session.EventClose, Reason: session.ProtocolError}},
		"error":           {session.Packet{Kind: session.KindError, Seq: 1}, session.InboundViolation, session.Event{Kind: session.EventClose, Reason: session.ProtocolError}},
		"unknown control": {session.Packet{Kind: session.KindControl, Name: []byte("later")}, session.InboundViolation, session.Event{Kind: session.EventClose, Reason: session.ProtocolError}},
		"reserved name":   {session.Packet{Kind: session.KindSend, Name: []byte("$zlink.later")}, session.InboundViolation, session.Event{Kind: session.EventClose, Reason: session.ProtocolError}},
	} {
		if got := session.CheckInbound(&c.p); got != c.want || got.Event() != c.event {
			t.Errorf("%s: verdict %d event %+v, want %d %+v", name, got, got.Event(), c.want, c.event)
		}
	}
}

func TestNumbersPrintAsTheirNames(t *testing.T) {
	for got, want := range map[string]string{
		session.KindSend.String():         "Send",
		session.KindRequest.String():      "Request",
		session.KindResponse.String():     "Response",
		session.KindError.String():        "Error",
		session.KindControl.String():      "Control",
		session.Kind(9).String():          "Kind(9)",
		session.CodecRaw.String():         "Raw",
		session.CodecJSON.String():        "JSON",
		session.CodecMessagePack.String(): "MessagePack",
		session.CodecProtobuf.String():    "Protobuf",
		session.Codec(9).String():         "Codec(9)",
		session.ServerDrain.String():      "ServerDrain",
		session.CloseReason(9).String():   "CloseReason(9)",
		session.Reason(99).String():       "reason 99",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for r := session.ReasonTooLarge; r <= session.ReasonErrorBody; r++ {
		if text := (&session.DecodeError{Reason: r}).Error(); !strings.HasPrefix(text, "session: ") || len(text) < 20 {
			t.Errorf("reason %d says %q", uint8(r), text)
		}
	}
}

func TestTheWordOfAClosingTextIsTold(t *testing.T) {
	for diag, want := range map[string]string{
		"":                       "",
		"replaced":               session.WordReplaced,
		"replaced: by another":   session.WordReplaced,
		"kicked: cheater: twice": session.WordKicked,
		"kicked out":             "",
		"not kicked: idle":       "",
	} {
		if got := session.ClosingWord(diag); got != want {
			t.Errorf("%q: %q, want %q", diag, got, want)
		}
	}
}
