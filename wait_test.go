package zlnode_test

import (
	"context"
	"testing"
	"time"

	"github.com/zlnode/zlnode"
)

// A Redis without replicas cannot confirm a lease that a replica must have.
func TestNobodyStartsWithoutTheReplicasThatItWaitsFor(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(w.ctx, 2*time.Second)
		defer cancel()
		n, err := zlnode.Start(ctx, w.config(zlnode.Config{RID: "a", Role: zlnode.RoleServer, WaitReplicas: 1}), codecApp())
		if err == nil {
			w.stop(n)
			t.Fatal("it started")
		}
		t.Log(err)
	})
}
