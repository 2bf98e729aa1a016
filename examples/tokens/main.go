// Command tokens shows how clients authenticate: the service where players log in, which need
// not be a node, signs a token, and a client's first request brings it.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zlnode/zlnode"
	"github.com/zlnode/zlnode/client"
)

// player is the value of a Session.
type player struct{ name string }

type hello struct{ Token string }

// sessions defines the Session type: nothing of a client counts before its token does.
func sessions(app *zlnode.App, key []byte) {
	t := zlnode.DefineSession(app, "player", func(*zlnode.SessionContext) (*player, error) { return &player{}, nil })
	zlnode.Authenticate(t, "hello", func(_ *zlnode.SessionCall, p *player, h hello) (string, error) {
		name, err := verify(key, h.Token, time.Now())
		if err != nil {
			return "", zlnode.Errorf(zlnode.Rejected, "log in again") // err is for nobody but a log
		}
		p.name = name
		return "Welcome, " + name + "!", nil // here the player's Actor would be bound
	})
	zlnode.OnPacketRequest(t, "whoami", func(_ *zlnode.SessionCall, p *player, _ struct{}) (string, error) { return p.name, nil })
}

func main() {
	ctx := context.Background()
	key := []byte(rand.Text()) // the log-in service and all nodes know it, and nobody else
	app := zlnode.NewApp()
	sessions(app, key)
	node, err := zlnode.Start(ctx, zlnode.Config{
		Role:     zlnode.RoleNone, // a node without Actors needs no Store
		Sessions: []zlnode.SessionListener{{Addr: "127.0.0.1:0", Type: "player", AuthTimeout: 3 * time.Second}},
	}, app)
	check(err)

	soon := time.Now().Add(time.Minute)
	for _, token := range []string{sign(key, "Ada", soon), sign([]byte("another key"), "Ada", soon), sign(key, "Ada", time.Now())} {
		fmt.Println(visit(ctx, node.SessionAddrs()[0].String(), token))
	}
	check(node.Shutdown(ctx))
}

// visit is a client with that token.
func visit(ctx context.Context, addr, token string) string {
	c, err := client.Dial(ctx, client.Options{Addr: addr})
	check(err)
	defer func() { _ = c.Close() }() // the node may have closed it
	var welcome, name string
	if err := c.RequestJSON(ctx, "hello", hello{Token: token}, &welcome); err != nil {
		if e, ok := errors.AsType[*client.RemoteError](err); ok {
			return fmt.Sprintf("%v: %s", e.Kind, e.Message)
		}
		return err.Error()
	}
	check(c.RequestJSON(ctx, "whoami", struct{}{}, &name))
	return welcome + " You are " + name + "."
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
