package witness

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nth spreads steps over time.
func nth(i int) time.Duration { return time.Duration(i) }

func TestWhatWasNotedIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	w, err := Create(path, 64)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}()
	want := Record{Kind: Executed, Flags: Failed | OneWay, Count: 9, Object: "an-actor-12345-x", ObjGen: 1 << 40, OwnerGen: 3, Op: Message(BoundSender|4, 5)}
	from := Now()
	w.Note(want)
	got, err := Read(path)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got[0].At < from || got[0].At > Now() {
		t.Errorf("it was at %v, noted behind %v", got[0].At, from)
	}
	if got[0].At = 0; got[0] != want {
		t.Errorf("%+v, want %+v", got[0], want)
	}
	if op := got[0].Op; op.Sender() != BoundSender|4 || op.Seq() != 5 {
		t.Errorf("the message is %d of %x", op.Seq(), op.Sender())
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 15 {
				w.Note(want)
			}
		})
	}
	all.Wait()
	if got, err = Read(path); err != nil || len(got) != 61 {
		t.Errorf("%d records of 61, %v", len(got), err)
	}
}

func TestAFullFileSaysSo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	w, err := Create(path, 2)
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		w.Note(Record{Kind: Asked})
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path); !errors.Is(err, ErrFull) || len(got) != 2 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

func TestARecordThatItsProcessDidNotFinishIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w")
	b := make([]byte, 3*recordBytes)
	(&Record{At: 5, Object: "a"}).put(b)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path); err != nil || len(got) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}
