package redislua

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/zlnode/zlnode/store"
)

var (
	errClosed        = errors.New("the Store is closed")
	errAbandoned     = errors.New("given up before it was sent")
	errForeignAnswer = fmt.Errorf("%w: the answer is not this call's; its connection is dropped", store.ErrCorrupt)
)

// meaning says what err, which ended the call, means for the caller: ErrUnavailable
// if nothing was changed, ErrUnknown if the script may have run, ErrCorrupt if it
// met a record that no script writes.
func (c *call) meaning(err error) error {
	var reply redis.Error
	switch {
	case !c.wasSent():
		return store.ErrUnavailable
	case !errors.As(err, &reply):
		return store.ErrUnknown
	case refused(reply.Error()):
		return store.ErrUnavailable
	default:
		return store.ErrCorrupt
	}
}

// refused reports whether the server's error reply says that the script changed
// nothing: that it was not run, or that its first write was not allowed. Redis
// checks the latter before the first write of a script only, never in its middle.
func refused(reply string) bool {
	for _, start := range [...]string{
		"LOADING ", "MASTERDOWN ", "CLUSTERDOWN ", "TRYAGAIN ", "MOVED ", "ASK ", // not the server to ask, or not now
		"BUSY ",                                        // another script runs too long
		"READONLY ", "OOM ", "MISCONF ", "NOREPLICAS ", // no writes
		"NOAUTH ", "NOPERM ", "WRONGPASS ", // not for us
		"ERR max number of clients", "ERR unknown command", // not at all
	} {
		if strings.HasPrefix(reply, start) {
			return true
		}
	}
	return strings.Contains(reply, "Script killed by user") // possible only before the first write
}

// unavailable turns an error of a call that only prepared another one into that one's:
// what the caller asked for was not done.
func unavailable(err error) error {
	if errors.Is(err, store.ErrUnknown) {
		return fmt.Errorf("%w: the epoch was not noted: %s", store.ErrUnavailable, err.Error())
	}
	return err
}
