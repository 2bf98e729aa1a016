package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// answerMax bounds an answer: a hundred objects that are blocked fit, with what is said of each.
const answerMax = 1 << 20

// Client asks the door of one node. Its methods are safe for concurrent use. What the node
// refuses is an *Error.
type Client struct {
	addr  string
	token string
	http  http.Client
}

// NewClient returns a client of a door at "host:port", which is that of a tunnel to another
// machine if the node is there. Close must follow.
func NewClient(addr string, token []byte) *Client {
	return &Client{addr: addr, token: string(token), http: http.Client{
		// No proxy: the token is for this machine. No redirects: the door has none.
		Transport:     &http.Transport{DialContext: (&net.Dialer{Timeout: headTime}).DialContext},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close gives its connections back.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks for the node's status.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.ask(ctx, http.MethodGet, "status", nil, nil, &s)
}

// Relocate has a relocation begin, and waits for its end for so long.
func (c *Client) Relocate(ctx context.Context, r RelocateRequest, wait time.Duration) (reply RelocateReply, err error) {
	return reply, c.ask(ctx, http.MethodPost, "relocate", waits(wait), &r, &reply)
}

// Relocation asks how far the relocation is, and waits for so long for another answer than the
// one that was seen.
func (c *Client) Relocation(ctx context.Context, seen string, wait time.Duration) (r Relocation, err error) {
	q := waits(wait)
	q.Set("seen", seen)
	return r, c.ask(ctx, http.MethodGet, "relocation", q, nil, &r)
}

// Cordon cordons the node.
func (c *Client) Cordon(ctx context.Context, passes []string) (s Status, err error) {
	return s, c.ask(ctx, http.MethodPost, "cordon", nil, &CordonRequest{passes}, &s)
}

// Uncordon ends that.
func (c *Client) Uncordon(ctx context.Context) (s Status, err error) {
	return s, c.ask(ctx, http.MethodPost, "uncordon", nil, nil, &s)
}

// SetLimits changes the limits that change names, by their names in JSON.
func (c *Client) SetLimits(ctx context.Context, change map[string]int64) (l Limits, err error) {
	return l, c.ask(ctx, http.MethodPut, "limits", nil, change, &l)
}

// Shutdown has the node end within the timeout, and waits for the end for so long.
func (c *Client) Shutdown(ctx context.Context, timeout, wait time.Duration) (s Status, err error) {
	return s, c.ask(ctx, http.MethodPost, "shutdown", waits(wait), &ShutdownRequest{timeout.Milliseconds()}, &s)
}

func waits(wait time.Duration) url.Values {
	return url.Values{"wait": {min(wait, waitMax).String()}}
}

func (c *Client) ask(ctx context.Context, method, what string, q url.Values, body, into any) error {
	var sent io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(b)
	}
	u := url.URL{Scheme: "http", Host: c.addr, Path: "/v1/" + what, RawQuery: q.Encode()}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), sent)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	got, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("the node's admin port %s does not answer: %w", c.addr, err)
	}
	defer func() { _ = got.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(got.Body, answerMax))
	if err != nil {
		return fmt.Errorf("the answer of %s did not come: %w", c.addr, err)
	}
	if got.StatusCode >= http.StatusMultipleChoices {
		refused := &Error{Status: got.StatusCode}
		if err := json.Unmarshal(b, refused); err != nil || refused.Kind == "" {
			return fmt.Errorf("%s answers %s, as no admin port does", c.addr, got.Status)
		}
		return refused
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s answers what no admin port does: %w", c.addr, err)
	}
	return nil
}
