package engine

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gobwas/ws"

	"github.com/zlnode/zlnode/internal/buf"
)

// requestEnd is what a request's head ends with.
var requestEnd = []byte("\r\n\r\n")

var (
	errRequestTooLarge = ws.RejectConnectionError(ws.RejectionStatus(http.StatusRequestHeaderFieldsTooLarge),
		ws.RejectionReason(fmt.Sprintf("the request's head is larger than %d bytes", requestMax)))
	errOrigin = ws.RejectConnectionError(ws.RejectionStatus(http.StatusForbidden),
		ws.RejectionReason("pages of this origin may not connect"))
	errLineEnd = ws.RejectConnectionError(ws.RejectionStatus(http.StatusBadRequest),
		ws.RejectionReason("lines of the request's head must end with CR LF"))
)

// readRequest takes bytes of the HTTP request and answers it when its head is whole. It
// returns what came behind it.
func (c *Conn) readRequest(b []byte) []byte {
	w := c.ws
	if w.request == nil {
		w.request = buf.Get(min(requestMax, max(len(b), 512)))
	}
	from := max(w.have-len(requestEnd)+1, 0)
	if room := len(w.request.Bytes()); w.have+len(b) > room && room < requestMax {
		larger := buf.Get(min(requestMax, max(w.have+len(b), 2*room)))
		copy(larger.Bytes(), w.request.Bytes()[:w.have])
		w.request.Free()
		w.request = larger
	}
	n := copy(w.request.Bytes()[w.have:], b)
	w.have += n
	end := bytes.Index(w.request.Bytes()[from:w.have], requestEnd)
	if end < 0 {
		if w.have == requestMax {
			c.answerRequest(nil, errRequestTooLarge)
		}
		return nil
	}
	end += from + len(requestEnd)
	behind := b[n-(w.have-end):]
	response, err := upgrade(w.request.Bytes()[:end], w.origins)
	c.answerRequest(response, err)
	return behind
}

// answerRequest sends the answer and opens the connection, or refuses it.
func (c *Conn) answerRequest(response []byte, err error) {
	w := c.ws
	w.request.Free()
	w.request, w.have = nil, 0
	if len(response) == 0 {
		response = requestRefusal(err)
	}
	putErr := c.out.put(buf.Copy(response), c.p.OutMax+ControlReserve)
	if err = errors.Join(err, putErr); err != nil {
		if c.from != nil {
			c.from.failed(c.remote, err)
		}
		c.refuse(CloseReason{Code: Rejected, Text: "no WebSocket", Err: err})
		return
	}
	w.upgraded = true
	c.present()
}

// upgrade returns the answer to a request with this head, and an error if that is not yes.
// An answer may be missing then.
func upgrade(head []byte, origins []string) (response []byte, err error) {
	if bytes.Count(head, []byte("\n")) != bytes.Count(head, []byte("\r\n")) {
		return nil, errLineEnd // so that the head ends for everybody at the same place
	}
	u := ws.Upgrader{OnHeader: func(key, value []byte) error {
		if len(origins) > 0 && string(key) == "Origin" && !allowed(origins, string(value)) {
			return errOrigin
		}
		return nil
	}}
	rw := exchange{in: bytes.NewReader(head)}
	_, err = u.Upgrade(&rw)
	return rw.out.Bytes(), err
}

// exchange is a request to be read, and what was written in answer.
type exchange struct {
	in  *bytes.Reader
	out bytes.Buffer
}

func (x *exchange) Read(p []byte) (int, error)  { return x.in.Read(p) }
func (x *exchange) Write(p []byte) (int, error) { return x.out.Write(p) }

// allowed reports whether origin is one of origins; case does not count in it.
func allowed(origins []string, origin string) bool {
	return slices.ContainsFunc(origins, func(o string) bool { return strings.EqualFold(o, origin) })
}

// requestRefusal is the answer to a request that could not be read.
func requestRefusal(err error) []byte {
	status := http.StatusBadRequest
	if r, ok := errors.AsType[*ws.ConnectionRejectedError](err); ok {
		status = r.StatusCode()
	}
	body := http.StatusText(status)
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		status, body, len(body), body)
}
