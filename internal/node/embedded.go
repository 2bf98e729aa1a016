package node

import "github.com/zlnode/zlnode/store/redislua"

// EmbeddedStore is a Location Store server in this process.
type EmbeddedStore = redislua.Embedded

// StartEmbeddedStore starts one.
func StartEmbeddedStore(addr string) (*EmbeddedStore, error) {
	e, err := redislua.StartEmbedded(addr)
	if err != nil {
		return nil, fromStore(err, "start", "embedded store")
	}
	return e, nil
}
