package zlnode

import "github.com/zlnode/zlnode/internal/node"

// EmbeddedStore is a Location Store server inside this process, for development,
// demos and tests: nodes of this and other processes use it by its URL, with the
// same scripts as on Redis. It keeps everything in memory, on one goroutine, and
// must never hold a world that matters.
type EmbeddedStore struct{ inner *node.EmbeddedStore }

// StartEmbeddedStore starts one on addr; "" takes a free port of 127.0.0.1.
func StartEmbeddedStore(addr string) (*EmbeddedStore, error) {
	e, err := node.StartEmbeddedStore(addr)
	if err != nil {
		return nil, err
	}
	return &EmbeddedStore{e}, nil
}

// URL is for Config.StoreURL.
func (e *EmbeddedStore) URL() string { return e.inner.URL() }

// Close stops the server; what it held is gone.
func (e *EmbeddedStore) Close() { e.inner.Close() }
