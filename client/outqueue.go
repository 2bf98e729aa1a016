package client

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/zlnode/zlnode/session"
)

const (
	// writeChunk bounds one Write, so that a write deadline is about progress and
	// not about the size of what has gathered, and room comes back piece by piece.
	writeChunk = 64 << 10
	// spareMax is what the two buffers of an idle connection may hold on to. More,
	// which a burst took, is given up with the first heartbeat that goes out alone.
	spareMax = 16 << 10
)

// outQueue gathers encoded frames for the one writer goroutine of a connection.
// Producers append to pending; the writer takes all of it at once and writes it
// while the next batch gathers.
//
// Invariant: len(pending) + taken ≤ bound, heartbeats and the last frame of a
// closing client aside; those are at most three small frames. Once err is set
// nothing more is accepted.
type outQueue struct {
	conn  net.Conn
	bound int           // bytes
	stall time.Duration // of one Write; ≤ 0: no limit

	mu        sync.Mutex
	work      sync.Cond // the writer waits here
	pending   []byte
	taken     int           // bytes that the writer has and has not written
	room      chan struct{} // closed when bytes were written; nil if nobody waits
	ping      bool          // a heartbeat is due; two of a kind are never queued
	pong      bool
	owed      bool  // the transport has something of its own to write
	err       error // why no frame is accepted; nil: open
	finishing bool  // the writer ends when pending is written
}

func (q *outQueue) init(conn net.Conn, bound int, stall time.Duration) {
	q.conn, q.bound, q.stall = conn, bound, stall
	q.work.L = &q.mu
}

// push encodes p behind what waits already. If there is no room it waits for up
// to wait; with wait 0 it fails with ErrQueueFull instead.
func (q *outQueue) push(ctx context.Context, p *session.Packet, wait time.Duration) error {
	size := session.Size(p)
	if size > q.bound {
		return ErrFrameTooLarge
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.fits(size) {
		if err := q.awaitRoom(ctx, size, wait); err != nil {
			return err
		}
	}
	if q.err != nil {
		return q.err
	}
	var err error
	if q.pending, err = session.Append(q.pending, p); err != nil {
		return err
	}
	q.work.Signal()
	return nil
}

func (q *outQueue) fits(size int) bool { return len(q.pending)+q.taken+size <= q.bound }

// awaitRoom returns once size bytes fit or the queue is closed. The caller holds
// mu, which is given up while waiting.
func (q *outQueue) awaitRoom(ctx context.Context, size int, wait time.Duration) error {
	if wait == 0 {
		return ErrQueueFull
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for q.err == nil && !q.fits(size) {
		if q.room == nil {
			q.room = make(chan struct{})
		}
		room := q.room
		q.mu.Unlock()
		var err error
		select {
		case <-room:
		case <-timer.C:
			err = ErrSendTimeout
		case <-ctx.Done():
			err = ctx.Err()
		}
		q.mu.Lock()
		if err != nil {
			return err
		}
	}
	return nil
}

// heartbeat makes a ping or a pong due.
func (q *outQueue) heartbeat(ping, pong bool) {
	q.mu.Lock()
	q.ping = q.ping || ping
	q.pong = q.pong || pong
	q.work.Signal()
	q.mu.Unlock()
}

// owe has the writer call Write, with or without frames, for what the transport
// itself has to write.
func (q *outQueue) owe() {
	q.mu.Lock()
	q.owed = true
	q.work.Signal()
	q.mu.Unlock()
}

// finish accepts nothing more, with err, and lets the writer end after what is
// queued and the frame last.
func (q *outQueue) finish(last []byte, err error) {
	q.mu.Lock()
	if q.err == nil {
		q.err, q.finishing = err, true
		q.pending = append(q.pending, last...)
	}
	q.wakeAll()
	q.mu.Unlock()
}

// close accepts nothing more, with err, and drops what is queued.
func (q *outQueue) close(err error) {
	q.mu.Lock()
	if q.err == nil {
		q.err = err
	}
	q.pending = nil
	q.wakeAll()
	q.mu.Unlock()
}

func (q *outQueue) wakeAll() {
	q.work.Signal()
	q.giveRoom()
}

func (q *outQueue) giveRoom() {
	if q.room != nil {
		close(q.room)
		q.room = nil
	}
}

// run writes until the queue is closed (a nil error), finished, or a write
// fails. It is the writer goroutine's whole life.
func (q *outQueue) run() (finished bool, err error) {
	var batch []byte
	for {
		var open bool
		if batch, open, finished = q.take(batch); !open {
			return finished, nil
		}
		if err := q.write(batch); err != nil {
			return false, err
		}
	}
}

// take waits for bytes to write, or a Write that is owed, and takes all of them. spare is
// the batch before, whose memory takes the frames to come.
func (q *outQueue) take(spare []byte) (batch []byte, open, finished bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = 0
	q.giveRoom()
	for q.err == nil && len(q.pending) == 0 && !q.ping && !q.pong && !q.owed {
		q.work.Wait()
	}
	if q.err != nil && len(q.pending) == 0 {
		return nil, false, q.finishing
	}
	if len(q.pending) == 0 && cap(q.pending)+cap(spare) > spareMax {
		q.pending, spare = nil, nil
	}
	batch = q.pending
	if q.err == nil {
		batch = q.appendHeartbeats(batch)
	}
	q.pending, q.taken, q.owed = spare[:0], len(batch), false
	return batch, true, false
}

func (q *outQueue) appendHeartbeats(batch []byte) []byte {
	if q.pong {
		batch = append(batch, session.PongFrame()...)
	}
	if q.ping {
		batch = append(batch, session.PingFrame()...)
	}
	q.ping, q.pong = false, false
	return batch
}

// write writes batch in chunks, each within the stall limit.
func (q *outQueue) write(batch []byte) error {
	for {
		chunk := batch[:min(len(batch), writeChunk)]
		if q.stall > 0 {
			if err := q.conn.SetWriteDeadline(time.Now().Add(q.stall)); err != nil {
				return err
			}
		}
		if _, err := q.conn.Write(chunk); err != nil {
			return err
		}
		batch = batch[len(chunk):]
		if len(batch) == 0 {
			return nil
		}
		q.mu.Lock()
		q.taken = len(batch)
		q.giveRoom()
		q.mu.Unlock()
	}
}
