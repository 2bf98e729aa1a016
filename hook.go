package zlnode

import (
	"context"

	"github.com/zlnode/zlnode/internal/hook"
	"github.com/zlnode/zlnode/internal/node"
)

// The test kit, package zlnodetest, starts nodes whose timers have a clock of its own.
func init() {
	hook.Start = func(ctx context.Context, cfg, app any, last func(*node.Config)) (any, error) {
		return start(ctx, cfg.(Config), app.(*App), last)
	}
	hook.App = func(app any) *node.App { return app.(*App).app }
	hook.Inner = func(n any) *node.Node { return n.(*Node).inner }
}
