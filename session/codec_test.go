package session_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/zlnode/zlnode/session"
)

const flowID = "01a22840-d4b2-7584-83ed-5fc44e31cb33"

// mustAppend returns p's frame.
func mustAppend(tb testing.TB, p *session.Packet) []byte {
	tb.Helper()
	frame, err := session.Append(nil, p)
	if err != nil {
		tb.Fatal(err)
	}
	return frame
}

func mustMetadata(tb testing.TB, pairs ...session.Pair) session.Metadata {
	tb.Helper()
	m, err := session.AppendMetadata(nil, pairs)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// fullPacket has every optional field.
func fullPacket(tb testing.TB) session.Packet {
	return session.Packet{
		Kind:        session.KindRequest,
		Codec:       session.CodecProtobuf,
		Seq:         1<<64 - 1,
		Name:        []byte("move"),
		Meta:        mustMetadata(tb, session.Pair{Key: "trace", Value: "abc"}, session.Pair{Key: "zone", Value: ""}),
		Correlation: []byte("c-1"),
		Flow:        []byte(flowID),
		Origin:      4,
		Payload:     []byte("payload"),
	}
}

func TestAPacketSurvivesTheWire(t *testing.T) {
	full := fullPacket(t)
	for name, p := range map[string]session.Packet{
		"everything":            full,
		"bare send":             {Kind: session.KindSend, Name: []byte("x")},
		"send with a sequence":  {Kind: session.KindSend, Name: []byte("x"), Seq: 9},
		"response":              {Kind: session.KindResponse, Seq: 1, Codec: session.CodecMessagePack, Payload: []byte{0}},
		"error":                 {Kind: session.KindError, Seq: 1, Codec: session.CodecJSON},
		"empty correlation":     {Kind: session.KindSend, Name: []byte("x"), Correlation: []byte{}},
		"longest name":          {Kind: session.KindSend, Name: bytes.Repeat([]byte("n"), session.NameMax)},
		"longest correlation":   {Kind: session.KindSend, Name: []byte("x"), Correlation: bytes.Repeat([]byte{0xfe}, session.CorrelationMax)},
		"metadata without keys": {Kind: session.KindSend, Name: []byte("x"), Meta: session.Metadata{0}},
		"unknown control":       {Kind: session.KindControl, Name: []byte("later")},
	} {
		frame := mustAppend(t, &p)
		if session.Size(&p) != len(frame) {
			t.Errorf("%s: Size = %d, frame has %d bytes", name, session.Size(&p), len(frame))
		}
		got, err := session.Decode(frame)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !samePacket(&got, &p) {
			t.Errorf("%s: decoded %+v, want %+v", name, got, p)
		}
	}
}

func samePacket(a, b *session.Packet) bool {
	same := func(x, y []byte) bool { return (x == nil) == (y == nil) && bytes.Equal(x, y) }
	return a.Kind == b.Kind && a.Codec == b.Codec && a.Compressed == b.Compressed && a.Seq == b.Seq &&
		bytes.Equal(a.Name, b.Name) && same(a.Meta, b.Meta) && same(a.Correlation, b.Correlation) &&
		same(a.Flow, b.Flow) && a.Origin == b.Origin && bytes.Equal(a.Payload, b.Payload)
}

func TestDecodedFieldsCannotGrowIntoTheirNeighbours(t *testing.T) {
	p := fullPacket(t)
	frame := mustAppend(t, &p)
	stream := append(bytes.Clone(frame), frame...)
	want := bytes.Clone(stream)
	got, err := session.Decode(stream[:len(frame)])
	if err != nil {
		t.Fatal(err)
	}
	for i, field := range [][]byte{got.Name, got.Meta, got.Correlation, got.Flow, got.Payload} {
		_ = append(field, '#')
		if !bytes.Equal(stream, want) {
			t.Errorf("appending to field %d changed the stream behind it", i)
		}
	}
}

func TestEveryShorterOrLongerFrameIsRefused(t *testing.T) {
	p := fullPacket(t)
	frame := mustAppend(t, &p)
	for n := range frame {
		if _, err := session.Decode(frame[:n]); reasonOf(err) != session.ReasonTruncated {
			t.Fatalf("first %d of %d bytes: %v", n, len(frame), err)
		}
	}
	if _, err := session.Decode(append(bytes.Clone(frame), 0)); reasonOf(err) != session.ReasonTrailing {
		t.Errorf("one byte more: %v", err)
	}
}

// The header length is made to lie by one in either direction: every field of a
// full header then ends at the wrong place.
func TestAHeaderThatDoesNotEndWithItsLastFieldIsRefused(t *testing.T) {
	p := fullPacket(t)
	for cut := range session.Size(&p) - session.PrefixSize - len(p.Payload) - 5 {
		frame := mustAppend(t, &p)
		header := int(binary.BigEndian.Uint16(frame))
		end := session.PrefixSize + header
		short := append(bytes.Clone(frame[:end-cut-1]), frame[end:]...)
		binary.BigEndian.PutUint16(short, uint16(header-cut-1))
		if _, err := session.Decode(short); err == nil {
			t.Errorf("header cut by %d bytes was accepted", cut+1)
		}
	}
	frame := mustAppend(t, &p)
	header := int(binary.BigEndian.Uint16(frame))
	binary.BigEndian.PutUint16(frame, uint16(header+1))
	binary.BigEndian.PutUint32(frame[2:], uint32(len(p.Payload)-1))
	if _, err := session.Decode(frame); reasonOf(err) != session.ReasonTrailing {
		t.Errorf("header longer by one byte: %v", err)
	}
}

func TestARefusalNamesTheRuleAndHoldsForBothDirections(t *testing.T) {
	send := func(change func(p *session.Packet)) session.Packet {
		p := session.Packet{Kind: session.KindSend, Name: []byte("x")}
		change(&p)
		return p
	}
	control := func(name string, change func(p *session.Packet)) session.Packet {
		p := session.Packet{Kind: session.KindControl, Name: []byte(name)}
		change(&p)
		return p
	}
	for name, c := range map[string]struct {
		p    session.Packet
		want session.Reason
	}{
		"kind 0":                  {send(func(p *session.Packet) { p.Kind = 0 }), session.ReasonKind},
		"kind 6":                  {send(func(p *session.Packet) { p.Kind = 6 }), session.ReasonKind},
		"codec 4":                 {send(func(p *session.Packet) { p.Codec = 4 }), session.ReasonCodec},
		"send without name":       {send(func(p *session.Packet) { p.Name = nil }), session.ReasonName},
		"name too long":           {send(func(p *session.Packet) { p.Name = make([]byte, 256) }), session.ReasonName},
		"name not UTF-8":          {send(func(p *session.Packet) { p.Name = []byte{0xc0, 0x80} }), session.ReasonName},
		"request without name":    {session.Packet{Kind: session.KindRequest, Seq: 1}, session.ReasonName},
		"request without seq":     {session.Packet{Kind: session.KindRequest, Name: []byte("x")}, session.ReasonSequence},
		"response without seq":    {session.Packet{Kind: session.KindResponse}, session.ReasonSequence},
		"response with name":      {session.Packet{Kind: session.KindResponse, Seq: 1, Name: []byte("x")}, session.ReasonName},
		"error without seq":       {session.Packet{Kind: session.KindError}, session.ReasonSequence},
		"error with name":         {session.Packet{Kind: session.KindError, Seq: 1, Name: []byte("x")}, session.ReasonName},
		"correlation too long":    {send(func(p *session.Packet) { p.Correlation = make([]byte, 256) }), session.ReasonCorrelation},
		"empty metadata block":    {send(func(p *session.Packet) { p.Meta = session.Metadata{} }), session.ReasonMetadata},
		"metadata key empty":      {send(func(p *session.Packet) { p.Meta = session.Metadata{1, 0, 0, 0} }), session.ReasonMetadata},
		"metadata key not UTF-8":  {send(func(p *session.Packet) { p.Meta = session.Metadata{1, 1, 0xff, 0, 0} }), session.ReasonMetadata},
		"metadata value no UTF-8": {send(func(p *session.Packet) { p.Meta = session.Metadata{1, 1, 'k', 0, 1, 0xff} }), session.ReasonMetadata},
		"metadata rest":           {send(func(p *session.Packet) { p.Meta = session.Metadata{0, 0} }), session.ReasonMetadata},
		"flow too short":          {send(func(p *session.Packet) { p.Flow, p.Origin = []byte(flowID[1:]), 1 }), session.ReasonFlow},
		"flow not lowercase":      {send(func(p *session.Packet) { p.Flow, p.Origin = []byte(strings.ToUpper(flowID)), 1 }), session.ReasonFlow},
		"flow without dashes":     {send(func(p *session.Packet) { p.Flow, p.Origin = []byte(strings.ReplaceAll(flowID, "-", "0")), 1 }), session.ReasonFlow},
		"flow of version 4":       {send(func(p *session.Packet) { p.Flow, p.Origin = []byte(flowID[:14]+"4"+flowID[15:]), 1 }), session.ReasonFlow},
		"flow of variant c":       {send(func(p *session.Packet) { p.Flow, p.Origin = []byte(flowID[:19]+"c"+flowID[20:]), 1 }), session.ReasonFlow},
		"flow origin 0":           {send(func(p *session.Packet) { p.Flow = []byte(flowID) }), session.ReasonFlow},
		"flow origin 5":           {send(func(p *session.Packet) { p.Flow, p.Origin = []byte(flowID), 5 }), session.ReasonFlow},
		"control without name":    {control("", func(*session.Packet) {}), session.ReasonName},
		"control with seq":        {control("c", func(p *session.Packet) { p.Seq = 1 }), session.ReasonSequence},
		"control with codec":      {control("c", func(p *session.Packet) { p.Codec = session.CodecJSON }), session.ReasonControl},
		"control with metadata":   {control("c", func(p *session.Packet) { p.Meta = session.Metadata{0} }), session.ReasonControl},
		"control with flow":       {control("c", func(p *session.Packet) { p.Flow, p.Origin = []byte(flowID), 1 }), session.ReasonControl},
		"control compressed":      {control("c", func(p *session.Packet) { p.Compressed = true }), session.ReasonControl},
		"ping with payload":       {control(session.PingName, func(p *session.Packet) { p.Payload = []byte{1} }), session.ReasonControl},
		"pong with payload":       {control(session.PongName, func(p *session.Packet) { p.Payload = []byte{1} }), session.ReasonControl},
		"closing without payload": {control(session.ClosingName, func(*session.Packet) {}), session.ReasonControl},
		"closing of version 2":    {control(session.ClosingName, func(p *session.Packet) { p.Payload = []byte{2, 1, 0, 0} }), session.ReasonControl},
		"closing with reason 0":   {control(session.ClosingName, func(p *session.Packet) { p.Payload = []byte{1, 0, 0, 0} }), session.ReasonControl},
		"closing with reason 7":   {control(session.ClosingName, func(p *session.Packet) { p.Payload = []byte{1, 7, 0, 0} }), session.ReasonControl},
		"closing, text too long": {control(session.ClosingName, func(p *session.Packet) {
			p.Payload = append([]byte{1, 1, 2, 1}, make([]byte, 513)...)
		}), session.ReasonControl},
	} {
		dst := []byte("kept")
		got, err := session.Append(dst, &c.p)
		if reasonOf(err) != c.want || string(got) != "kept" {
			t.Errorf("%s: Append = %q, %v; want it refused for %v", name, got, err, c.want)
		}
		if frame := rawFrame(&c.p); frame != nil {
			if _, err := session.Decode(frame); reasonOf(err) != c.want {
				t.Errorf("%s: Decode: %v, want %v", name, err, c.want)
			}
		}
	}
}

// rawFrame encodes p without any check; nil if it has no encoding.
func rawFrame(p *session.Packet) []byte {
	if len(p.Name) > 255 || len(p.Correlation) > 255 || p.Flow != nil && len(p.Flow) != session.FlowSize {
		return nil
	}
	var flags byte
	var fields []byte
	if p.Seq != 0 {
		flags |= 1
		fields = binary.BigEndian.AppendUint64(fields, p.Seq)
	}
	fields = append(append(fields, byte(len(p.Name))), p.Name...)
	if p.Meta != nil {
		flags |= 2
		fields = append(binary.BigEndian.AppendUint16(fields, uint16(len(p.Meta))), p.Meta...)
	}
	if p.Compressed {
		flags |= 4
	}
	if p.Correlation != nil {
		flags |= 8
		fields = append(append(fields, byte(len(p.Correlation))), p.Correlation...)
	}
	if p.Flow != nil {
		flags |= 16
		fields = append(append(fields, p.Flow...), p.Origin)
	}
	frame := binary.BigEndian.AppendUint16(nil, uint16(4+len(fields)))
	frame = binary.BigEndian.AppendUint32(frame, uint32(len(p.Payload)))
	frame = append(frame, 0xF2, byte(p.Kind), byte(p.Codec), flags)
	return append(append(frame, fields...), p.Payload...)
}

func TestAFrameOverTheCapIsRefusedFromItsPrefixAlone(t *testing.T) {
	prefix := func(header uint16, payload uint32) []byte {
		b := binary.BigEndian.AppendUint16(nil, header)
		return binary.BigEndian.AppendUint32(b, payload)
	}
	for _, c := range []struct {
		header  uint16
		payload uint32
		cap     int
		size    int
		want    session.Reason
	}{
		{6, 94, 100, 106, 0},
		{6, 95, 100, 0, session.ReasonTooLarge},
		{6, 95, 0, 107, 0},
		{6, 1<<32 - 1, 64 << 10, 0, session.ReasonTooLarge},
		{4, 0, 0, 0, session.ReasonHeaderLength},
		{0, 1<<32 - 1, 1, 0, session.ReasonHeaderLength},
		{5, 0, 5, 11, 0},
	} {
		got, err := session.FrameSize(prefix(c.header, c.payload), c.cap)
		if got != c.size || reasonOf(err) != c.want {
			t.Errorf("FrameSize(%d+%d, cap %d) = %d, %v; want %d, reason %v", c.header, c.payload, c.cap, got, err, c.size, c.want)
		}
	}
	whole := prefix(6, 10)
	for n := range whole {
		if got, err := session.FrameSize(whole[:n], 1); got != 0 || err != nil {
			t.Errorf("FrameSize of %d bytes = %d, %v; want 0 until the prefix is there", n, got, err)
		}
	}
}

func TestAReplyEchoesSequenceFlowAndANonEmptyCorrelation(t *testing.T) {
	req := fullPacket(t)
	got := session.ResponseTo(&req)
	want := session.Packet{Kind: session.KindResponse, Seq: req.Seq, Correlation: req.Correlation, Flow: req.Flow, Origin: req.Origin}
	if !samePacket(&got, &want) {
		t.Errorf("ResponseTo = %+v, want %+v", got, want)
	}
	req.Correlation = []byte{}
	if got := session.ResponseTo(&req); got.Correlation != nil {
		t.Error("an empty correlation id was echoed")
	}
}

func TestTheCodecAllocatesNothing(t *testing.T) {
	p := fullPacket(t)
	frame := mustAppend(t, &p)
	dst := make([]byte, 0, session.Size(&p))
	for name, f := range map[string]func() error{
		"FrameSize": func() error { _, err := session.FrameSize(frame, receiveCap); return err },
		"Decode":    func() error { _, err := session.Decode(frame); return err },
		"Append":    func() error { _, err := session.Append(dst, &p); return err },
		"Lookup": func() error {
			if _, ok := p.Meta.Lookup("zone"); !ok {
				t.Error("zone is missing")
			}
			return nil
		},
		"a refusal": func() error { _, _ = session.Decode(frame[:9]); return nil },
	} {
		if n := testing.AllocsPerRun(100, func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
