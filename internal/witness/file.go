package witness

import (
	"errors"
	"fmt"
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

// Read returns what is in a file, whose process may run yet. ErrFull: something is missing.
func Read(path string) ([]Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if len(b)%recordBytes != 0 {
		return nil, fmt.Errorf("witness: %s has %d bytes, which are no records", path, len(b))
	}
	var all []Record
	for at := 0; at < len(b); at += recordBytes {
		if b[at+kindAt] != 0 {
			all = append(all, parse(b[at:at+recordBytes]))
		}
	}
	if len(b) > 0 && b[len(b)-recordBytes+kindAt] != 0 {
		return all, fmt.Errorf("%w: %s", ErrFull, path)
	}
	return all, nil
}
