// Package hook is what the test kit reaches of the public package without being part of
// its API. The public package fills it in.
package hook

import (
	"context"

	"github.com/zlnode/zlnode/internal/node"
)

// Start is zlnode.Start with a last word on the inner configuration: a *zlnode.Node for a
// zlnode.Config and a *zlnode.App.
var Start func(ctx context.Context, cfg, app any, last func(*node.Config)) (any, error)

// App returns what is behind a *zlnode.App.
var App func(app any) *node.App

// Inner returns what is behind a *zlnode.Node.
var Inner func(n any) *node.Node
