package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// creditEvery is how many one-way messages make a credit.
func creditEvery() int64 { return int64(max(min(512, *fWindow/8), 1)) }

// AckCounter counts one-way messages at the server, which is one goroutine at a time.
type AckCounter struct{ n, every int64 }

// On counts a message. If due, a credit is to be sent: the count so far and the stamp
// of the message.
func (c *AckCounter) On(payload []byte) (due bool, n, stamp int64) {
	if c.every == 0 {
		c.every = creditEvery()
	}
	c.n++
	if c.n%c.every != 0 {
		return false, 0, 0
	}
	return true, c.n, stampOf(payload)
}

// encAck makes a credit's 16 bytes.
func encAck(n, stamp int64) []byte {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, 16), uint64(n))
	return binary.LittleEndian.AppendUint64(b, uint64(stamp))
}

// decAck reads them.
func decAck(b []byte) (n, stamp int64) {
	return int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
}

func measureRemoteAsk(p Peer) {
	if p.Serve == nil {
		skip(p)
		return
	}
	server := startServer()
	defer server.end()
	askers, stop := (func(<-chan struct{}, func(int64)))(nil), func() {}
	if p.RunRemAsk != nil {
		askers = func(stop <-chan struct{}, done func(int64)) { p.RunRemAsk(server.addr, *fP, stop, done) }
	} else {
		var ask func(int, []byte) error
		if _, ask, stop = p.Remote(server.addr, func(int64, int64) {}); ask == nil {
			skip(p)
			return
		}
		askers = askersOf(ask)
	}
	measureAskers(p, askers, server.withHere)
	end(stop)
}

func measureRemoteTell(p Peer) {
	if p.Serve == nil {
		skip(p)
		return
	}
	server := startServer()
	defer server.end()
	w := newWindow(*fWindow)
	var acked atomic.Int64
	tell, _, stop := p.Remote(server.addr, func(n, stamp int64) {
		w.give(n - acked.Swap(n))
		if stamp != 0 {
			took.add(now() - stamp)
		}
	})
	var sent int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// Whole credits, so that the last message is confirmed too; the stamp is in
		// the message that makes the credit due.
		for every := creditEvery(); w.take(every); sent += every {
			for k := range every {
				payload := sharedPayload
				if k == every-1 {
					payload = stamped()
				}
				tell(payload)
			}
		}
	}()
	measure(p, acked.Load, server.withHere)
	w.close()
	select {
	case <-ended:
		for end := time.Now().Add(5 * time.Second); acked.Load() < sent && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		if n := acked.Load(); n != sent {
			warn(p, "%d sent, %d confirmed", sent, n)
		}
	case <-time.After(10 * time.Second):
		warn(p, "the sender is stuck")
	}
	end(stop)
}

// serverMark says that this process is the server side, or one with subscribers.
const serverMark = "PEERS_SERVER"

func inChild() bool { return os.Getenv(serverMark) != "" }

// answerParent ends this process when standard input ends. Two lines there, when the
// measurement begins and ends, ask what was used so far.
func answerParent() {
	suffix := ".server"
	if _, yes := subscribesTo(); yes {
		suffix = fmt.Sprint(".subscribers-", os.Getpid())
	}
	in := bufio.NewScanner(os.Stdin)
	asked := func() {
		if !in.Scan() {
			os.Exit(0)
		}
	}
	for {
		asked()
		fmt.Println("USED", here().mallocs, here().cpu)
		endProfile := beginProfile(suffix)
		asked()
		endProfile()
		fmt.Println("USED", here().mallocs, here().cpu)
	}
}

// serveChild runs the server side.
func serveChild(p Peer) {
	p.Serve(freeAddr(), func(addr string) { fmt.Println("READY", addr) })
}

// child is the other process.
type child struct {
	addr    string
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan string // to lines of in
}

// startServer starts this program once more, with the same flags, and waits until its
// Serve is ready.
func startServer() *child { return startChild("1", nil) }

// startChild does the same of a process with that mark. got gets what subscribers there
// confirm.
func startChild(mark string, got func(copies int64)) *child {
	s := &child{cmd: exec.Command("/proc/self/exe", os.Args[1:]...), answers: make(chan string, 1)}
	s.cmd.Env, s.cmd.Stderr = append(os.Environ(), serverMark+"="+mark), os.Stderr
	out, err := s.cmd.StdoutPipe()
	if err == nil {
		s.in, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		panic(err)
	}
	ready := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line := lines.Text()
			if n, ok := strings.CutPrefix(line, "GOT "); ok {
				copies, _ := strconv.ParseInt(n, 10, 64)
				got(copies)
			} else if addr, ok := strings.CutPrefix(line, "READY "); ok {
				ready <- addr
			} else if n, ok := strings.CutPrefix(line, "USED "); ok {
				s.answers <- n
			} else {
				fmt.Fprintln(os.Stderr, line) // of the library
			}
		}
	}()
	select {
	case s.addr = <-ready:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		panic("the server did not become ready")
	}
	return s
}

// used is the usage of that process.
func (s *child) used() (u usage) {
	fmt.Fprintln(s.in)
	if _, err := fmt.Sscan(<-s.answers, &u.mallocs, &u.cpu); err != nil {
		panic(err)
	}
	return u
}

// withHere is the usage of the server and of this process.
func (s *child) withHere() usage { return s.used().plus(here()) }

func (s *child) end() {
	_ = s.in.Close()
	kill := time.AfterFunc(3*time.Second, func() { _ = s.cmd.Process.Kill() })
	_ = s.cmd.Wait()
	kill.Stop()
}
