package node

import (
	"runtime"
	"strings"
	"sync"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/internal/sparse"
)

// said are the log lines that strangers, clients or peers decide the number of.
type said struct {
	dialFailed, linkBroken, linkRefused                      sparse.Line // of connections to peers
	updateIgnored, sendFailed, requestFailed, callbackFailed sparse.Line // of links and Sessions
	serviceFailed, serviceFull                               sparse.Line // of messages to channels and nodes
	actorSendFailed, actorRequestFailed                      sparse.Line // of clients' messages to Actors
	copiesMissed, readerFailed                               sparse.Line // of topics
	moveSlow                                                 sparse.Line // of moves
	panics                                                   sync.Map    // panicSite → *sparse.Line: as many as the program has such places
}

// panicked reports whether the panic that is being recovered is to be logged: one a second
// of each place in the code, so that one that a client can cause at will hides no other. Of
// what is tried again it is the tries that count. Left out were that many of this place.
func (s *said) panicked(try tries) (left int64, ok bool) {
	if try > 1 {
		return 0, try.logged()
	}
	site := panicSite()
	line, known := s.panics.Load(site)
	if !known {
		line, _ = s.panics.LoadOrStore(site, new(sparse.Line))
	}
	return line.(*sparse.Line).Take(clock.Now())
}

// panicSite is where the panic that is being recovered began.
func panicSite() uintptr {
	var stack [64]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(1, stack[:])])
	for began := false; ; {
		f, more := frames.Next()
		switch {
		case f.Function == "runtime.gopanic":
			began = true
		case began && !strings.HasPrefix(f.Function, "runtime."):
			return f.PC
		}
		if !more {
			return 0
		}
	}
}
