// Command hello is the smallest zlnode program: one node, one Actor, two requests.
package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"log"

	"github.com/zlnode/zlnode"
)

// greeter is the Actor's value. Its handlers run one at a time.
type greeter struct{ guests int }

func newGreeter(*zlnode.ActorContext) (*greeter, error) { return &greeter{}, nil }

func main() {
	ctx := context.Background()
	redis, err := zlnode.StartEmbeddedStore("") // stands in for the Redis that all nodes share
	check(err)
	defer redis.Close()

	app := zlnode.NewApp()
	greeters := zlnode.DefineActor(app, "greeter", newGreeter, zlnode.DisableRelocation)
	zlnode.OnRequest(greeters, "greet", func(_ *zlnode.ActorCall, g *greeter, name string) (string, error) {
		g.guests++
		return fmt.Sprintf("Hello, %s! You are guest number %d.", name, g.guests), nil
	})

	cfg := zlnode.Config{Role: zlnode.RoleServer, Listen: "127.0.0.1:0", MeshKey: []byte(rand.Text()), StoreURL: redis.URL()}
	node, err := zlnode.Start(ctx, cfg, app)
	check(err)
	_, err = node.GetOrCreateActor(ctx, zlnode.CreateActor{ID: "front-door", Type: "greeter"})
	check(err)
	for _, name := range []string{"Ada", "world"} { // the id is all a caller needs, on any node
		reply, err := zlnode.Request[string](ctx, node.Actor("front-door"), "greet", name)
		check(err)
		fmt.Println(reply)
	}
	check(node.Shutdown(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
