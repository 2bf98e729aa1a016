// Package closeframe reads the close frames of WebSockets.
package closeframe

import (
	"errors"
	"unicode/utf8"

	"github.com/gobwas/ws"
)

// Statuses that were registered after RFC 6455; load balancers say them. Package ws does not
// know them, and lets pass what is over all ranges.
const (
	serviceRestart ws.StatusCode = 1012
	tryAgainLater  ws.StatusCode = 1013
	badGateway     ws.StatusCode = 1014
)

var errOneByte = errors.New("a close frame of one byte")

// Read returns what a close frame's payload says. Of an empty one that is
// StatusNoStatusRcvd, which no close frame says. An error is the peer's fault.
func Read(payload []byte) (status ws.StatusCode, text string, err error) {
	switch len(payload) {
	case 0:
		return ws.StatusNoStatusRcvd, "", nil
	case 1:
		return 0, "", errOneByte
	}
	status, text = ws.ParseCloseFrameData(payload)
	switch {
	case status > ws.StatusRangePrivate.Max:
		err = ws.ErrProtocolStatusCodeUnknown
	case status < serviceRestart || status > badGateway:
		err = ws.CheckCloseFrameData(status, text)
	case !utf8.ValidString(text):
		err = ws.ErrProtocolInvalidUTF8
	}
	return status, text, err
}
