package witness

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Now returns the time by the clock of all processes of the machine, which nobody sets.
func Now() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // every Linux has that clock
	return time.Duration(t.Nano())
}

// Writer writes one process's file. Note is safe for concurrent use.
type Writer struct {
	mem  []byte
	next atomic.Int64 // record
}

// ErrFull is that of a file without room for what happened.
var ErrFull = errors.New("witness: the file is full")

// Create makes the file, with room for that many records. Its blocks come as they are used.
func Create(path string, records int) (*Writer, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the mapping stays, and what is written goes there
	size := records * recordBytes
	if err := f.Truncate(int64(size)); err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("witness: %s: %w", path, err)
	}
	return &Writer{mem: mem}, nil
}

// Note writes the record, with the present as its time.
func (w *Writer) Note(r Record) {
	at := int(w.next.Add(1)-1) * recordBytes
	if at+recordBytes > len(w.mem) {
		return // the last record is there, of which Read tells
	}
	b := w.mem[at : at+recordBytes]
	r.At = Now()
	r.put(b)
	word := (*uint32)(unsafe.Pointer(&b[kindAt])) // with the flags, which put has written
	atomic.StoreUint32(word, uint32(r.Kind)|uint32(r.Flags)<<8)
}

// Close ends the mapping. Nothing may be noted afterwards.
func (w *Writer) Close() error { return unix.Munmap(w.mem) }

// partRecords is how many records are read at once. A writer leaves no gap that long.
const partRecords = 1024

// Read returns what is in a file, whose process may run yet. ErrFull: something is missing.
func Read(path string) ([]Record, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // nothing was written
	var all []Record
	last := false // the record before is one
	for part := make([]byte, partRecords*recordBytes); ; {
		n, err := io.ReadFull(f, part)
		switch {
		case errors.Is(err, io.EOF) && last:
			return all, fmt.Errorf("%w: %s", ErrFull, path)
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
			return nil, err
		case n%recordBytes != 0:
			return nil, fmt.Errorf("witness: %s ends with %d bytes, which are no records", path, n%recordBytes)
		}
		before := len(all)
		for at := 0; at < n; at += recordBytes {
			if last = part[at+kindAt] != 0; last {
				all = append(all, parse(part[at:at+recordBytes]))
			}
		}
		if len(all) == before {
			return all, nil
		}
	}
}
