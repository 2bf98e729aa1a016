package wire

import (
	"bytes"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

func TestAnyCarriedSurvivesAndLeavesTheRest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(genCarried, 1, 4).Draw(t, "queue")
		var b []byte
		for _, c := range want {
			n := len(b)
			if b = c.AppendTo(b); len(b)-n != c.Size() {
				t.Fatalf("appended %d bytes, Size says %d", len(b)-n, c.Size())
			}
		}
		for i, c := range want {
			got, rest, err := DecodeCarried(b)
			if err != nil || !bytes.Equal(got.AppendTo(nil), c.AppendTo(nil)) {
				t.Fatalf("message %d: got %+v, %v; want %+v", i, got, err, c)
			}
			b = rest
		}
		if len(b) != 0 {
			t.Fatalf("%d bytes left", len(b))
		}
	})
}

func TestTheRelayedMessageBeginsAtRelayHead(t *testing.T) {
	for _, rec := range moveSamples()[CmdRelay] {
		b := rec.AppendTo(nil)
		if want := rec.(*Relay).Message.AppendTo(nil); !bytes.Equal(b[RelayHead:], want) {
			t.Errorf("behind the head:\n%x\nwant\n%x", b[RelayHead:], want)
		}
	}
}

func TestTheHeadOfAChunkAndItsPayloadAreTheRecord(t *testing.T) {
	c := *moveSamples()[CmdStateChunk][0].(*StateChunk)
	want := c.AppendTo(nil)
	payload := c.Payload
	c.Payload = nil
	head := c.AppendHead(nil, len(payload))
	if len(head) != StateChunkHead || !bytes.Equal(append(head, payload...), want) {
		t.Errorf("head of %d bytes and payload:\n%x\nwant\n%x", StateChunkHead, append(head, payload...), want)
	}
}

func TestADecodedChunkIsAViewOfItsRecord(t *testing.T) {
	b := moveSamples()[CmdStateChunk][0].AppendTo(nil)
	c, err := DecodeStateChunk(b[HeaderSize:])
	if err != nil {
		t.Fatal(err)
	}
	if &c.Payload[0] != &b[StateChunkHead] {
		t.Error("the payload was copied")
	}
}

func TestTheHeadOfAMoveStateWithQueueAndStateIsAllOfIt(t *testing.T) {
	m := moveStateSample()
	want := m.AppendTo(nil)
	queue, state := m.Queue, m.State
	m.Queue, m.State = nil, nil
	got := append(append(m.AppendHead(nil, len(queue), len(state)), queue...), state...)
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

func TestAnyMoveStateSurvives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genMoveState.Draw(t, "state")
		b := want.AppendTo(nil)
		if len(b) != want.Size() {
			t.Fatalf("appended %d bytes, Size says %d", len(b), want.Size())
		}
		got, err := DecodeMoveState(b)
		if err != nil || !bytes.Equal(got.AppendTo(nil), b) {
			t.Fatalf("got %+v, %v; want %+v", got, err, want)
		}
		if !bytes.Equal(got.Queue, want.Queue) || !bytes.Equal(got.State, want.State) || !bytes.Equal(got.Timers, want.Timers) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestEveryCutOfAMoveStateIsRefused(t *testing.T) {
	m := moveStateSample()
	b := m.AppendTo(nil)
	for n := range b {
		if _, err := DecodeMoveState(b[:n]); !errors.Is(err, ErrTruncated) && !(n == 0 && errors.Is(err, ErrValue)) {
			t.Errorf("first %d bytes: %v", n, err)
		}
	}
}

func TestTheLargestMessageFitsIntoARelay(t *testing.T) {
	r := Relay{Relocation: [16]byte{1}, Attempt: 1, Seq: 1, Message: Carried{
		Kind: CarriedTopic, Spot: true, Topic: bytes.Repeat([]byte("t"), MaxID), Number: 1, Origin: Process{RID: bytes.Repeat([]byte("r"), MaxRID), Lifecycle: MaxGeneration}, Via: Process{RID: bytes.Repeat([]byte("r"), MaxRID), Lifecycle: MaxGeneration},
		Correlation: 1, Session: 1, BindingGen: 1, DeadlineMS: 1, Name: bytes.Repeat([]byte("n"), MaxID), Metadata: make([]byte, MaxMetadata), Payload: make([]byte, MaxPayload),
	}}
	if n := r.Message.Size(); n != maxCarried {
		t.Errorf("largest message %d bytes, maxCarried says %d", n, maxCarried)
	}
	if _, err := Decode(r.AppendTo(nil)); err != nil {
		t.Error(err)
	}
}

func TestAdmitResultHasOneEncodingOnly(t *testing.T) {
	f := func(b []byte, want error) {
		t.Helper()
		_, err := DecodeAdmitResult(b)
		wantErr(t, err, want)
	}
	f(nil, ErrTruncated)
	f([]byte{0, 0}, ErrEmpty)
	f([]byte{3, 0}, ErrValue)
	f([]byte{byte(VerdictRejected), 2}, ErrFlags)
	f([]byte{byte(VerdictRejected), 0, 0}, ErrTrailing)
	f([]byte{byte(VerdictRejected), 1}, ErrTruncated)          // reply without codec
	f([]byte{byte(VerdictRejected), 1, 4}, ErrValue)           // unknown codec
	f([]byte{byte(VerdictAccepted), 0, 0, 0, 4}, ErrTruncated) // cut chunk size
	f([]byte{byte(VerdictAccepted), 0, 0, 0, 3, 0xff}, ErrValue)
	f([]byte{byte(VerdictAccepted), 0, 0, 0x10, 0, 1}, ErrValue)
	f(append([]byte{byte(VerdictRejected), 1, 0}, make([]byte, MaxPayload+1)...), ErrTooLarge)
}

func TestMoveStateHasOneEncodingOnly(t *testing.T) {
	m := moveStateSample()
	f := func(what string, change func(b []byte) []byte, want error) {
		t.Helper()
		_, err := DecodeMoveState(change(m.AppendTo(nil)))
		if !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", what, err, want)
		}
	}
	lengths := m.headSize() - 20 // count of messages, bytes of the queue, bytes of the state
	put := func(at int, v byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = v; return b }
	}
	f("the right one", func(b []byte) []byte { return b }, nil)
	f("version 2", put(0, 2), ErrValue)
	f("unknown flag", put(1, 0x13), ErrFlags)
	f("a binding whose client is gone", put(1, 7), ErrValue)
	f("no binding, whose client is away", put(1, moveHasState|moveClientAway), ErrValue)
	f("a state that it says it does not have", put(1, moveHasBinding), ErrValue)
	f("timers of 4 GiB", put(8, 0xff), ErrTruncated)
	f("topics of 4 GiB", put(lengths-8-len(m.Topics)-4, 0xff), ErrTruncated)
	f("a subscription behind the last one", put(lengths-1, 3), ErrValue)
	f("a queue of 2^63 bytes", put(lengths+4, 0x80), ErrTruncated)
	f("a state of 2^63 bytes", put(lengths+12, 0x80), ErrTruncated)
	f("one message less", put(lengths+3, byte(m.Saved-1)), ErrTrailing)
	f("one message more", put(lengths+3, byte(m.Saved+1)), ErrTruncated)
	f("messages by the milliard", put(lengths, 0xff), ErrTruncated)
	f("a message of no kind", put(lengths+20, 0), ErrEmpty)
	f("bytes behind it", func(b []byte) []byte { return append(b, 0) }, ErrTrailing)
}

// FuzzCarried: any bytes give messages or a FormatError, and what is accepted encodes to
// the same bytes.
func FuzzCarried(f *testing.F) {
	var queue []byte
	for _, c := range carriedSamples() {
		f.Add(c.AppendTo(nil))
		queue = c.AppendTo(queue)
	}
	f.Add(queue)
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			c, rest, err := DecodeCarried(b)
			if err != nil {
				var format *FormatError
				if !errors.As(err, &format) || rest != nil {
					t.Fatalf("got %v and %d bytes", err, len(rest))
				}
				return
			}
			taken := b[:len(b)-len(rest)]
			if again := c.AppendTo(nil); !bytes.Equal(again, taken) || c.Size() != len(taken) {
				t.Fatalf("encoded again:\n%x\nwas\n%x", again, taken)
			}
			b = rest
		}
	})
}

// FuzzMoveState: the same of a MoveState, whose queue then has no error in it.
func FuzzMoveState(f *testing.F) {
	m := moveStateSample()
	f.Add(m.AppendTo(nil))
	m = MoveState{SpotID: []byte("lobby")}
	f.Add(m.AppendTo(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeMoveState(b)
		if err != nil {
			var format *FormatError
			if !errors.As(err, &format) {
				t.Fatalf("got %v", err)
			}
			return
		}
		if again := m.AppendTo(nil); !bytes.Equal(again, b) || m.Size() != len(b) {
			t.Fatalf("encoded again:\n%x\nwas\n%x", again, b)
		}
		rest := m.Queue
		for i := range m.Saved {
			if _, rest, err = DecodeCarried(rest); err != nil {
				t.Fatalf("message %d of %d: %v", i, m.Saved, err)
			}
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes behind %d messages", len(rest), m.Saved)
		}
	})
}
