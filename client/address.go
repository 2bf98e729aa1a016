package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
)

// address is one server of Options, taken apart.
type address struct {
	text   string   // as it was given
	dial   string   // what the Dialer gets, host:port
	host   string   // that a certificate must name
	secure bool     // TLS over the dialled connection
	ws     *url.URL // WebSocket over that; nil: none
}

// defaultPorts of the schemes that have one; the others need a port.
var defaultPorts = map[string]string{"tcp": "", "tls": "", "ws": "80", "wss": "443"}

// parseAddress takes "host:port" or an URL with one of the schemes. What has no
// scheme is not looked at: it is for the Dialer to understand.
func parseAddress(text string) (address, error) {
	if text == "" {
		return address{}, errors.New("the address is empty; give host:port or an URL")
	}
	if !strings.Contains(text, "://") {
		return address{text: text, dial: text}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return address{}, err
	}
	port, known := defaultPorts[u.Scheme]
	if u.Port() != "" {
		port = u.Port()
	}
	a := address{text: text, host: u.Hostname(), dial: net.JoinHostPort(u.Hostname(), port)}
	switch {
	case !known:
		return a, fmt.Errorf("scheme %q is unknown; use tcp, tls, ws or wss", u.Scheme)
	case a.host == "" || port == "":
		return a, fmt.Errorf("%q needs a host and a port", text)
	case u.User != nil || u.Fragment != "":
		return a, fmt.Errorf("%s:// takes neither a user nor a fragment", u.Scheme)
	}
	a.secure = u.Scheme == "tls" || u.Scheme == "wss"
	if u.Scheme == "ws" || u.Scheme == "wss" {
		a.ws = u
	} else if u.RequestURI() != "/" {
		return a, fmt.Errorf("%s:// takes no path; only ws and wss do", u.Scheme)
	}
	return a, nil
}

// addressList names all addresses.
func (o *Options) addressList() string {
	var texts []string
	for _, a := range o.addrs {
		texts = append(texts, a.text)
	}
	return strings.Join(texts, ", ")
}

// open connects to a, with all handshakes, within ctx.
func (o *Options) open(ctx context.Context, a *address) (net.Conn, error) {
	conn, err := o.Dialer(ctx, a.dial)
	if err != nil {
		return nil, err
	}
	if a.secure {
		secure := tls.Client(conn, o.tlsFor(a.host))
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err
		}
		conn = secure
	}
	if a.ws == nil {
		return conn, nil
	}
	ws, err := openWebSocket(ctx, conn, a.ws, o.MaxFrame)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return ws, nil
}

// tlsFor returns the configuration for a server that must prove to be host.
func (o *Options) tlsFor(host string) *tls.Config {
	if o.TLS == nil {
		return &tls.Config{ServerName: host}
	}
	if o.TLS.ServerName != "" {
		return o.TLS
	}
	c := o.TLS.Clone()
	c.ServerName = host
	return c
}
