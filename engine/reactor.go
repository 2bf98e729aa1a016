package engine

import (
	"sync"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/rs/zerolog"
)

// reactor turns gnet's events into calls of connections and loops. An event's
// context is the *Conn, or the *loop whose waker it is.
type reactor struct {
	gnet.BuiltinEventEngine
	engine *Engine
}

// OnOpen implements gnet.EventHandler.
func (r *reactor) OnOpen(s gnet.Conn) ([]byte, gnet.Action) {
	switch x := s.Context().(type) {
	case *Conn:
		return nil, x.opened(r.engine.loopOf(s.EventLoop()), s)
	case *loop:
		x.reactor = s.EventLoop()
	}
	return nil, gnet.None
}

// OnTraffic implements gnet.EventHandler. It takes all there is: what it left
// would be copied into a buffer that grows without bound.
func (r *reactor) OnTraffic(s gnet.Conn) gnet.Action {
	b, _ := s.Next(-1) // fails only when asked for more than there is
	switch x := s.Context().(type) {
	case *Conn:
		x.claim()
		if x.tls == nil {
			x.receive(b)
			if len(b) == readBytes {
				x.readPlaced()
			}
		} else {
			x.receiveSecure(b)
		}
		return x.finish()
	case *loop:
		x.turn()
	}
	return gnet.None
}

// OnClose implements gnet.EventHandler.
func (r *reactor) OnClose(s gnet.Conn, err error) gnet.Action {
	if c, ok := s.Context().(*Conn); ok {
		c.closeNow(err)
	}
	return gnet.None
}

// starting guards gnet's process-wide default logger, which NewClient replaces
// and Start writes to, against engines that start at the same time.
var starting sync.Mutex

// startReactor starts gnet with n loops and no listener. The default logger of
// the process is afterwards what it was before.
func startReactor(e *Engine, n int) (*gnet.Client, error) {
	starting.Lock()
	defer starting.Unlock()
	before, flush := logging.GetDefaultLogger(), logging.GetDefaultFlusher()
	defer logging.SetDefaultLoggerAndFlusher(before, flush)
	client, err := gnet.NewClient(&reactor{engine: e},
		gnet.WithNumEventLoop(n),
		gnet.WithReadBufferCap(readBytes),
		gnet.WithTCPNoDelay(gnet.TCPDelay), // leaves the option as package net set it: no delay
		gnet.WithLogger(reactorLog{e.log}))
	if err != nil {
		return nil, err
	}
	return client, client.Start()
}

// reactorLog is gnet's logger. Its warnings are about events of sockets that were
// closed a moment before, which is normal here, so only its errors are shown.
type reactorLog struct{ log zerolog.Logger }

func (l reactorLog) Debugf(format string, args ...any) { l.log.Trace().Msgf("gnet: "+format, args...) }

func (l reactorLog) Infof(format string, args ...any) { l.log.Debug().Msgf("gnet: "+format, args...) }

func (l reactorLog) Warnf(format string, args ...any) { l.log.Debug().Msgf("gnet: "+format, args...) }

func (l reactorLog) Errorf(format string, args ...any) { l.log.Error().Msgf("gnet: "+format, args...) }

func (l reactorLog) Fatalf(format string, args ...any) { l.log.Error().Msgf("gnet: "+format, args...) }
