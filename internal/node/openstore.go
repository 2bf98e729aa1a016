package node

import (
	"context"

	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/redislua"
)

// OpenStore connects to a namespace of the Location Store at that URL, for a tool that
// looks at it beside the nodes. The caller closes it.
func OpenStore(ctx context.Context, url, namespace string) (store.Store, error) {
	s, err := redislua.Open(ctx, redislua.Options{URL: url, Namespace: namespace})
	if err != nil {
		return nil, fromStore(err, "open", "store")
	}
	return s, nil
}
