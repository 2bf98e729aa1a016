//go:build failpoints

package failpoint

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Enabled says whether the places are compiled in.
const Enabled = true

const variable = "ZLNODE_FAILPOINTS"

type action uint8

const (
	exit action = iota + 1
	stop
	sleep
	panics
	drop
)

// point is one armed place.
type point struct {
	do    action
	delay time.Duration
	left  atomic.Int64 // hits until it acts; below 0: it has
}

var (
	mu    sync.Mutex                        // of who arms
	armed atomic.Pointer[map[string]*point] // never changed, but replaced
)

func init() {
	if spec := os.Getenv(variable); spec != "" {
		if err := Arm(spec); err != nil {
			panic(err)
		}
	}
}

// Hit passes a place, and does there what was armed. drop tells the caller to leave out what
// it was about to do. What has happened is a line on standard output, "failpoint <name>",
// written before.
func Hit(name string) (dropped bool) {
	all := armed.Load()
	if all == nil {
		return false
	}
	p := (*all)[name]
	if p == nil || p.left.Add(-1) != 0 {
		return false
	}
	fmt.Println("failpoint", name)
	switch p.do {
	case exit:
		signal(syscall.SIGKILL)
	case stop:
		signal(syscall.SIGSTOP)
	case sleep:
		time.Sleep(p.delay)
	case panics:
		panic("failpoint " + name)
	case drop:
		return true
	}
	return false
}

// signal sends the signal to this very thread, which so goes no further: one for the process
// could be any other thread's.
func signal(s syscall.Signal) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), s) // both signals are every process's to send itself
}

// Arm arms what the specification says beside what is armed already; a name again replaces
// it. Safe for concurrent use.
func Arm(spec string) error {
	mu.Lock()
	defer mu.Unlock()
	next := map[string]*point{}
	if have := armed.Load(); have != nil {
		for name, p := range *have {
			next[name] = p
		}
	}
	for one := range strings.SplitSeq(spec, ";") {
		name, p, err := parse(one)
		if err != nil {
			return err
		}
		next[name] = p
	}
	armed.Store(&next)
	return nil
}

// parse reads one "name[@nth]=action[:duration]".
func parse(one string) (name string, p *point, err error) {
	place, what, ok := strings.Cut(one, "=")
	name, nth, counted := strings.Cut(place, "@")
	p = new(point)
	p.left.Store(1)
	if counted {
		n, bad := strconv.ParseInt(nth, 10, 32)
		ok = ok && bad == nil && n >= 1
		p.left.Store(n)
	}
	what, delay, timed := strings.Cut(what, ":")
	p.do = map[string]action{"exit": exit, "stop": stop, "sleep": sleep, "panic": panics, "drop": drop}[what]
	if timed {
		p.delay, err = time.ParseDuration(delay)
	}
	if !ok || name == "" || p.do == 0 || err != nil || timed != (p.do == sleep) {
		return "", nil, fmt.Errorf("failpoint: %q is not name[@nth]=exit|stop|panic|drop|sleep:duration", one)
	}
	return name, p, nil
}
