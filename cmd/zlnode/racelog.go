package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// runEvent is what happened to one run of a factory.
type runEvent uint8

const (
	runBegan    runEvent = iota + 1 // the factory was called
	runAccepted                     // and OnCreateActor accepted: the node may tell the Store
	runRejected
	runFailed
)

// runRecord is one record of a node about a run of a factory. It is as it stands in the
// file: all fields have a fixed size.
type runRecord struct {
	Event     runEvent
	Object    uint32 // the number of the id
	Gen       uint64 // ObjectGeneration
	Lifecycle uint64 // of the process
	Call      uint64 // whose request the reservation held; 0 in runBegan, where it is not known
	At        time.Duration
}

var runRecordSize = binary.Size(runRecord{})

// runLog is the file of one process. A record is one appending write, so what was
// written before a kill -9 is there after it, and records do not mix. A nil runLog
// takes records and drops them. Safe for concurrent use.
type runLog struct{ file *os.File }

// openRunLog creates the file at path; "" gives a nil log.
func openRunLog(path string) (*runLog, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return &runLog{f}, nil
}

// note writes one record, with the present time.
func (l *runLog) note(r runRecord) error {
	if l == nil {
		return nil
	}
	r.At = sharedClock()
	b, err := binary.Append(make([]byte, 0, runRecordSize), binary.LittleEndian, &r)
	if err != nil {
		return err
	}
	_, err = l.file.Write(b)
	return err
}

// readRunLog returns the records of a file. One that the process never made is empty;
// half a record at the end is an error.
func readRunLog(path string) ([]runRecord, error) {
	b, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case len(b)%runRecordSize != 0:
		return nil, fmt.Errorf("%s: %d bytes are no whole number of records of %d", path, len(b), runRecordSize)
	}
	records := make([]runRecord, 0, len(b)/runRecordSize)
	for in := bytes.NewReader(b); ; {
		var r runRecord
		err := binary.Read(in, binary.LittleEndian, &r)
		switch {
		case errors.Is(err, io.EOF):
			return records, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		records = append(records, r)
	}
}
