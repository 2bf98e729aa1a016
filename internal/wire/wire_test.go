package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/zlnode/zlnode/internal/errkind"
)

func TestEveryCommandHasASampleAndDecodes(t *testing.T) {
	all := samples()
	for n := range 256 {
		cmd := Command(n)
		info, known := cmd.Info()
		if known != (len(all[cmd]) > 0) {
			t.Errorf("%v: known %v, %d samples", cmd, known, len(all[cmd]))
		}
		if known && (info.Name == "" || info.Name != cmd.String() || !info.Before && !info.After) {
			t.Errorf("%v: row %+v", cmd, info)
		}
		for _, rec := range all[cmd] {
			b := rec.AppendTo(nil)
			if got, _, _, err := Header(b); err != nil || got != cmd {
				t.Errorf("%v: header says %v, %v", cmd, got, err)
			}
			if got, err := Decode(b); err != nil || !sameBytes(got, rec) {
				t.Errorf("%v: decoded %+v, %v; want %+v", cmd, got, err, rec)
			}
		}
	}
}

func TestCommandTable(t *testing.T) {
	var credited, before, requests, answers []string
	for n := range 256 {
		info, _ := Command(n).Info()
		if info.Credited {
			credited = append(credited, info.Name)
		}
		if info.Before {
			before = append(before, info.Name)
		}
		if info.Form == Request {
			requests = append(requests, info.Name)
		}
		if info.Form == Answer {
			answers = append(answers, info.Name)
		}
	}
	f := func(what string, got []string, want string) {
		t.Helper()
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v, want %s", what, got, want)
		}
	}
	f("credited", credited, "actorSend actorRequest instanceMessage joinAdmit relay sessionPacket nodeMessage publish push")
	f("before admit", before, "hello admit reject")
	f("requests", requests, "actorRequest actorDestroy joinAdmit bind restore sessionSeal userSpotCreate userSpotClose actorCreate")
	f("answers", answers, "reply error sessionSealed")
	if got := Command(45).String(); got != "command(45)" {
		t.Errorf("unknown command prints %q", got)
	}
}

// docs/PROTOCOL.md has the same table.
func TestTheDocumentListsTheCommands(t *testing.T) {
	doc, err := os.ReadFile("../../docs/PROTOCOL.md")
	if err != nil {
		t.Fatal(err)
	}
	yes := map[bool]string{true: "yes", false: "no"}
	form := map[Form]string{OneWay: "one-way", Request: "request", Answer: "answer", Either: "either"}
	var want []string
	for n := range 256 {
		if info, known := Command(n).Info(); known {
			want = append(want, fmt.Sprintf("| %d | %s | %s | %s | %s | %s |", n, info.Name, form[info.Form], yes[info.Before], yes[info.After], yes[info.Credited]))
		}
	}
	if table := strings.Join(want, "\n") + "\n\n"; !strings.Contains(string(doc), table) {
		t.Errorf("docs/PROTOCOL.md does not have this table of commands:\n%s", table)
	}
}

func TestErrorKindsCoverTheTable(t *testing.T) {
	if MaxErrorKind != errkind.Count-1 {
		t.Errorf("MaxErrorKind is %d, the table of kinds ends at %d", MaxErrorKind, errkind.Count-1)
	}
}

func TestUnknownCommandsAndFlagsAreRefused(t *testing.T) {
	for n := range 256 {
		cmd := Command(n)
		info, known := cmd.Info()
		for bit := range 8 {
			b := samplesOr(cmd)
			b[5] |= 1 << bit
			_, _, _, err := Header(b)
			switch {
			case !known:
				wantErr(t, err, ErrCommand)
			case info.Flags&(1<<bit) == 0:
				wantErr(t, err, ErrFlags)
			case err != nil:
				t.Errorf("%v: flag bit %d refused: %v", cmd, bit, err)
			}
		}
	}
}

func TestAnyValidRecordSurvivesTheWire(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := genRecord.Draw(t, "record")
		dst := rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "before")
		all := rec.AppendTo(bytes.Clone(dst))
		b := all[len(dst):]
		if !bytes.Equal(all[:len(dst)], dst) || len(b) != rec.Size() {
			t.Fatalf("appended %d bytes, Size says %d", len(b), rec.Size())
		}
		if n, err := RecordSize(b, MaxRecord); n != len(b) || err != nil {
			t.Fatalf("RecordSize %d, %v of %d bytes", n, err, len(b))
		}
		got, err := Decode(b)
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		if again := got.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("encoded again:\n%x\nwas\n%x", again, b)
		}
		if !sameBytes(got, rec) {
			t.Fatalf("decoded %+v, want %+v", got, rec)
		}
	})
}

func TestEveryCutOfARecordIsRefused(t *testing.T) {
	for cmd, recs := range samples() {
		for _, rec := range recs {
			whole := rec.AppendTo(nil)
			for n := range len(whole) {
				if size, err := RecordSize(whole[:n], MaxRecord); err != nil || size != 0 && size != len(whole) {
					t.Errorf("%v: %d bytes: size %d, %v", cmd, n, size, err)
				}
				if _, err := Decode(whole[:n]); !errors.Is(err, ErrLength) {
					t.Errorf("%v: first %d bytes: %v", cmd, n, err)
				}
				if n < HeaderSize {
					continue
				}
				// The same cut with a length that fits it: only a payload or the
				// end of a text may be missing.
				cut := bytes.Clone(whole[:n])
				binary.BigEndian.PutUint32(cut, uint32(n-4))
				if got, err := Decode(cut); err == nil && !bytes.Equal(got.AppendTo(nil), cut) {
					t.Errorf("%v: cut to %d bytes decodes as %+v", cmd, n, got)
				}
			}
		}
	}
}

func TestTrailingBytesAreRefusedWithoutAPayload(t *testing.T) {
	withPayload := map[Command]bool{CmdActorSend: true, CmdActorRequest: true, CmdReply: true, CmdSessionPacket: true, CmdPush: true, CmdPublish: true, CmdInstance: true, CmdJoinAdmit: true, CmdRelayedReply: true, CmdStateChunk: true, CmdNodeMessage: true}
	for cmd, recs := range samples() {
		b := append(recs[0].AppendTo(nil), 0)
		binary.BigEndian.PutUint32(b, uint32(len(b)-4))
		_, err := Decode(b)
		if cmd == CmdInterest { // a list to the record's end: it is a topic without a name
			wantErr(t, err, ErrEmpty)
			continue
		}
		if withPayload[cmd] {
			if err != nil {
				t.Errorf("%v: longer payload refused: %v", cmd, err)
			}
			continue
		}
		if cmd == CmdOffer { // a list up to the end: the byte begins one more channel
			wantErr(t, err, ErrEmpty)
			continue
		}
		wantErr(t, err, ErrTrailing)
	}
}

func TestAnOfferIsBounded(t *testing.T) {
	var o Offer
	for i := range MaxOffered {
		o.Channels = AppendOffered(o.Channels, []byte{'c', 'a' + byte(i/256), 'a' + byte(i/16%16), 'a' + byte(i%16)}, uint16(i))
	}
	if _, err := Decode(o.AppendTo(nil)); err != nil {
		t.Errorf("%d channels: %v", MaxOffered, err)
	}
	n := 0
	o.Each(func(_ []byte, weight uint16) {
		if int(weight) != n {
			t.Errorf("channel %d has weight %d", n, weight)
		}
		n++
	})
	o.Channels = AppendOffered(o.Channels, []byte("d"), 1)
	_, err := DecodeOffer(o.Channels)
	wantErr(t, err, ErrTooLarge)
}

func TestRecordSizeIsDecidedByThePrefix(t *testing.T) {
	f := func(b []byte, limit, want int, wantErrIs error) {
		t.Helper()
		n, err := RecordSize(b, limit)
		if n != want || !errors.Is(err, wantErrIs) {
			t.Errorf("%x: %d, %v; want %d, %v", b, n, err, want, wantErrIs)
		}
	}
	f(nil, MaxRecord, 0, nil)
	f([]byte{0, 0, 0}, MaxRecord, 0, nil)
	f([]byte{0, 0, 0, 2}, MaxRecord, 6, nil)
	f([]byte{0, 0, 0, 1}, MaxRecord, 0, ErrLength)
	f([]byte{0, 0, 0, 0, 9, 9}, MaxRecord, 0, ErrLength)
	f(binary.BigEndian.AppendUint32(nil, MaxRecord-4), MaxRecord, MaxRecord, nil)
	f(binary.BigEndian.AppendUint32(nil, MaxRecord-3), MaxRecord, 0, ErrTooLarge)
	f(binary.BigEndian.AppendUint32(nil, PreAdmitMax-4), PreAdmitMax, PreAdmitMax, nil)
	f(binary.BigEndian.AppendUint32(nil, PreAdmitMax-3), PreAdmitMax, 0, ErrTooLarge)
	f([]byte{0xff, 0xff, 0xff, 0xff}, MaxRecord, 0, ErrTooLarge)
}

func TestTheLargestHelloFitsBeforeAdmit(t *testing.T) {
	h := Hello{Mesh: make([]byte, MaxID), RID: make([]byte, MaxRID), ExpectRID: make([]byte, MaxRID)}
	r := Reject{Text: make([]byte, 2*MaxText)}
	if h.Size() > PreAdmitMax || r.Size() > PreAdmitMax {
		t.Errorf("hello %d, reject %d bytes, limit %d", h.Size(), r.Size(), PreAdmitMax)
	}
}

func TestLongTextIsCutBetweenCharacters(t *testing.T) {
	f := func(text string, want int) {
		t.Helper()
		e := ErrorReply{Correlation: 1, Text: []byte(text)}
		got, err := Decode(e.AppendTo(nil))
		if err != nil {
			t.Fatal(err)
		}
		cut := got.(*ErrorReply).Text
		if len(cut) != want || !strings.HasPrefix(text, string(cut)) || utf8.ValidString(text) && !utf8.Valid(cut) {
			t.Errorf("text of %d bytes cut to %d, want %d", len(text), len(cut), want)
		}
	}
	f(strings.Repeat("x", MaxText), MaxText)
	f(strings.Repeat("x", MaxText+1), MaxText)
	f("x"+strings.Repeat("é", MaxText), MaxText-1)
	f(strings.Repeat("x", MaxText-3)+"😀", MaxText-3)
	f(strings.Repeat("\x80", 2*MaxText), MaxText-utf8.UTFMax) // not UTF-8: bounded all the same
}

func TestOversizedValuesArePanicsOfTheEncoder(t *testing.T) {
	f := func(what string, rec Record) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s was encoded", what)
			}
		}()
		rec.AppendTo(nil)
	}
	f("id of 256 bytes", &ActorMessage{ID: make([]byte, MaxID+1), Op: 1, Name: []byte("n")})
	f("metadata over its limit", &ActorMessage{ID: []byte("a"), Op: 1, Name: []byte("n"), Metadata: make([]byte, MaxMetadata+1)})
	f("payload over its limit", &Push{Payload: make([]byte, MaxPayload+1)})
	f("reply over its limit", &Reply{Payload: make([]byte, MaxReplyPayload+1)})
	f("relayed payload over its limit", &Relay{Message: Carried{Payload: make([]byte, MaxPayload+1)}})
	f("chunk over its limit", &StateChunk{Payload: make([]byte, MaxChunk+1)})
	f("record over its limit", &Reply{Payload: make([]byte, MaxRecord)})
}

func TestDecodedViewsCannotGrowIntoTheirNeighbours(t *testing.T) {
	m := ActorMessage{ID: []byte("abc"), Op: 1, Name: []byte("move"), Payload: []byte("p")}
	b := m.AppendTo(nil)
	got, err := DecodeActorSend(0, b[HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	before := bytes.Clone(b)
	_ = append(got.ID, "zzzzzzzzzz"...)
	_ = append(got.Name, "zzzz"...)
	if !bytes.Equal(b, before) {
		t.Error("an append to a view changed the record")
	}
}

func TestValidIDAndRID(t *testing.T) {
	for _, s := range []string{"a", "node-1.eu_A", strings.Repeat("x", MaxRID)} {
		if !ValidRID(s) {
			t.Errorf("RID %q refused", s)
		}
	}
	for _, s := range []string{"", "a b", "é", "a/b", "{a}", "a\n", "a\x00", strings.Repeat("x", MaxRID+1)} {
		if ValidRID(s) {
			t.Errorf("RID %q accepted", s)
		}
	}
	for _, s := range []string{"a", "é\x00{}\n", strings.Repeat("x", MaxID)} {
		if !ValidID(s) {
			t.Errorf("id %q refused", s)
		}
	}
	for _, s := range []string{"", "\xff", strings.Repeat("x", MaxID+1)} {
		if ValidID(s) {
			t.Errorf("id %q accepted", s)
		}
	}
}

func TestASCIIFindsEveryHighByte(t *testing.T) {
	for n := range 40 {
		v := bytes.Repeat([]byte{0x7f}, n)
		if !ascii(v) {
			t.Errorf("%d ASCII bytes are not ASCII", n)
		}
		for i := range v {
			v[i] = 0x80
			if ascii(v) {
				t.Errorf("high byte at %d of %d not seen", i, n)
			}
			v[i] = 0x7f
		}
	}
}

func TestDeadlineRoundsUpAndNeverToZero(t *testing.T) {
	f := func(d time.Duration, want uint32) {
		t.Helper()
		if got := DeadlineMS(d); got != want {
			t.Errorf("DeadlineMS(%v) = %d, want %d", d, got, want)
		}
	}
	f(-time.Hour, 1)
	f(0, 1)
	f(1, 1)
	f(time.Millisecond, 1)
	f(time.Millisecond+1, 2)
	f(30*time.Second, 30_000)
	f(1<<63-1, 1<<32-1)
}

func TestDestroyResult(t *testing.T) {
	for _, destroyed := range []bool{true, false} {
		if got, err := DecodeDestroyResult(AppendDestroyResult(nil, destroyed)); err != nil || got != destroyed {
			t.Errorf("%v came back as %v, %v", destroyed, got, err)
		}
	}
	_, err := DecodeDestroyResult(nil)
	wantErr(t, err, ErrTruncated)
	_, err = DecodeDestroyResult([]byte{2})
	wantErr(t, err, ErrValue)
	_, err = DecodeDestroyResult([]byte{1, 0})
	wantErr(t, err, ErrTrailing)
}

func TestCreateResultHasOneEncodingOnly(t *testing.T) {
	f := func(b []byte, want error) {
		t.Helper()
		_, err := DecodeCreateResult(b)
		wantErr(t, err, want)
	}
	f(nil, ErrTruncated)
	f([]byte{0, 0, 0}, ErrEmpty)
	f([]byte{4, 0, 0}, ErrValue)
	f([]byte{byte(OutcomeRejected), 1, 0}, ErrValue)       // a kind without a failure
	f([]byte{byte(OutcomeFailed), 13, 0}, ErrValue)        // no such kind
	f([]byte{byte(OutcomeFailed), 5, 1, 0}, ErrValue)      // a reply of a failure
	f([]byte{byte(OutcomeRejected), 0, 2}, ErrValue)       // unknown flag
	f([]byte{byte(OutcomeRejected), 0, 0, 7}, ErrTrailing) // bytes but no reply
	f([]byte{byte(OutcomeRejected), 0, 1, 4, 7}, ErrValue) // unknown codec
	f([]byte{byte(OutcomeRejected), 0, 1}, ErrTruncated)   // reply without codec
	f([]byte{byte(OutcomeCreated), 0, 0, 1}, ErrTruncated) // cut reference
	f(append([]byte{byte(OutcomeRejected), 0, 1, 0}, make([]byte, MaxPayload+1)...), ErrTooLarge)
}

func TestErrorsNameRecordAndField(t *testing.T) {
	_, err := DecodeProbe(make([]byte, 8))
	if got, want := err.Error(), "wire: probe refused: id: empty or zero where a value is required"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	_, err = RecordSize([]byte{0, 0, 0, 0}, MaxRecord)
	if got, want := err.Error(), "wire: record refused: length: wrong length"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func wantErr(t *testing.T, err, want error) {
	t.Helper()
	var format *FormatError
	if !errors.Is(err, want) || !errors.As(err, &format) {
		t.Errorf("got %v, want a FormatError of %v", err, want)
	}
}

// samplesOr returns a record of cmd, or a bare header if cmd is unknown.
func samplesOr(cmd Command) []byte {
	if recs := samples()[cmd]; len(recs) > 0 {
		return recs[0].AppendTo(nil)
	}
	return []byte{0, 0, 0, 2, byte(cmd), 0}
}

// sameBytes compares two records field by field; nil and empty slices are the
// same, and text is compared as it was cut.
func sameBytes(a, b Record) bool {
	if reflect.TypeOf(a) != reflect.TypeOf(b) {
		return false
	}
	return printFields("", reflect.ValueOf(a).Elem()) == printFields("", clipped(b))
}

func clipped(r Record) reflect.Value {
	v := reflect.New(reflect.TypeOf(r).Elem()).Elem()
	v.Set(reflect.ValueOf(r).Elem())
	if text := v.FieldByName("Text"); text.IsValid() {
		text.SetBytes(clip(text.Bytes()))
	}
	return v
}
