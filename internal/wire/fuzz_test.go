package wire

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// FuzzDecode: any bytes give a record or a FormatError, and what is accepted
// encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	for _, recs := range samples() {
		for _, rec := range recs {
			f.Add(rec.AppendTo(nil))
		}
	}
	f.Add([]byte{0, 0, 0, 2, byte(CmdProbe), 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := Decode(b)
		if err != nil {
			var format *FormatError
			if !errors.As(err, &format) || rec != nil {
				t.Fatalf("got %v, %v", rec, err)
			}
			return
		}
		if n, err := RecordSize(b, len(b)); n != len(b) || err != nil {
			t.Fatalf("decoded %d bytes, RecordSize says %d, %v", len(b), n, err)
		}
		if rec.Size() != len(b) {
			t.Fatalf("decoded %d bytes, Size says %d", len(b), rec.Size())
		}
		if again := rec.AppendTo(nil); !bytes.Equal(again, b) {
			t.Fatalf("encoded again:\n%x\nwas\n%x", again, b)
		}
		if r, ok := rec.(*Reply); ok {
			fuzzResults(t, r.Payload)
		}
	})
}

// fuzzResults does the same for the payloads that have a format of their own.
func fuzzResults(t *testing.T, payload []byte) {
	if c, err := DecodeCreateResult(payload); err == nil {
		if again := c.AppendTo(nil); !bytes.Equal(again, payload) || c.Size() != len(payload) {
			t.Fatalf("encoded again:\n%x\nwas\n%x", again, payload)
		}
	}
	if a, err := DecodeAdmitResult(payload); err == nil {
		if again := a.AppendTo(nil); !bytes.Equal(again, payload) || a.Size() != len(payload) {
			t.Fatalf("encoded again:\n%x\nwas\n%x", again, payload)
		}
	}
	if d, err := DecodeDestroyResult(payload); err == nil {
		if again := AppendDestroyResult(nil, d); !bytes.Equal(again, payload) {
			t.Fatalf("encoded again:\n%x\nwas\n%x", again, payload)
		}
	}
}

// FuzzStream: a stream gives the same records and the same end, however it is
// cut into reads.
func FuzzStream(f *testing.F) {
	var all []byte
	for cmd := range 256 {
		for _, rec := range samples()[Command(cmd)] {
			all = rec.AppendTo(all)
		}
	}
	f.Add(all, []byte{1})
	f.Add(all, []byte{3, 0, 7, 200})
	f.Add(append(bytes.Clone(all), 0xff, 0xff, 0xff, 0xff, 1), []byte{5})
	f.Add(append(bytes.Clone(all), 0, 0, 0, 1), []byte{2})
	f.Fuzz(func(t *testing.T, stream, cuts []byte) {
		whole, wholeErr := readStream(slices.Values([][]byte{stream}))
		parts, partsErr := readStream(func(yield func([]byte) bool) {
			rest := stream
			for i := 0; len(rest) > 0; i++ {
				n := len(rest)
				if len(cuts) > 0 {
					n = min(n, int(cuts[i%len(cuts)])+1)
				}
				if !yield(rest[:n]) {
					return
				}
				rest = rest[n:]
			}
		})
		if !slices.EqualFunc(whole, parts, bytes.Equal) {
			t.Fatalf("%d records in one read, %d in parts", len(whole), len(parts))
		}
		if (wholeErr == nil) != (partsErr == nil) || wholeErr != nil && wholeErr.Error() != partsErr.Error() {
			t.Fatalf("ended with %v in one read, %v in parts", wholeErr, partsErr)
		}
	})
}

// readStream is a reader as a connection has it: it gathers bytes until a record
// is whole, and stops at the first that is refused.
func readStream(reads func(yield func([]byte) bool)) (records [][]byte, err error) {
	var in []byte
	for read := range reads {
		in = append(in, read...)
		for {
			n, err := RecordSize(in, MaxRecord)
			if err != nil {
				return records, err
			}
			if n == 0 || n > len(in) {
				break
			}
			if _, err := Decode(in[:n]); err != nil {
				return records, err
			}
			records = append(records, bytes.Clone(in[:n]))
			in = in[n:]
		}
	}
	return records, nil
}
