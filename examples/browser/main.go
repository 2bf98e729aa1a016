// Command browser serves a page that plays on a node over a WebSocket: requests, pushes,
// reasons for closing, and connecting anew. page/zlnode.js is a client to take along.
//
//	go run ./examples/browser
package main

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/zlnode/zlnode"
)

//go:embed page
var files embed.FS

// size is that of the square board, in fields.
const size = 11

// position is where a player is, and what a move of its is answered with. Integers of 32
// bits are numbers in JSON; those of 64 would be text, as JavaScript has none.
type position struct {
	X int32 `json:"x"`
	Y int32 `json:"y"`
}

// player is the Actor's value.
type player struct {
	at    position
	steps int32
}

func newPlayer(*zlnode.ActorContext) (*player, error) {
	return &player{at: position{X: size / 2, Y: size / 2}}, nil
}

type login struct {
	Name string `json:"name"`
}

type move struct {
	DX int32 `json:"dx"`
	DY int32 `json:"dy"`
}

// moved is pushed to the player's client.
type moved struct {
	X     int32 `json:"x"`
	Y     int32 `json:"y"`
	Steps int32 `json:"steps"`
}

// visitor is the value of a Session.
type visitor struct{}

// define returns the application: players, and Sessions that relay their moves.
func define() *zlnode.App {
	app := zlnode.NewApp()
	players := zlnode.DefineActor(app, "player", newPlayer, zlnode.DisableRelocation)
	zlnode.OnRequest(players, "where", func(_ *zlnode.ActorCall, p *player, _ struct{}) (position, error) { return p.at, nil })
	zlnode.OnRequest(players, "move", func(c *zlnode.ActorCall, p *player, m move) (position, error) {
		to := position{X: p.at.X + m.DX, Y: p.at.Y + m.DY}
		if m.DX*m.DX+m.DY*m.DY != 1 || min(to.X, to.Y) < 0 || max(to.X, to.Y) >= size {
			return p.at, zlnode.Errorf(zlnode.Rejected, "a player goes one field, on the board")
		}
		p.at = to
		p.steps++
		return to, c.Push("moved", moved{X: to.X, Y: to.Y, Steps: p.steps})
	})

	sessions := zlnode.DefineSession(app, "browser", func(*zlnode.SessionContext) (*visitor, error) { return &visitor{}, nil })
	zlnode.OnPacketRequest(sessions, "login", func(c *zlnode.SessionCall, _ *visitor, in login) (position, error) {
		ref, err := c.BindOrGet("player", "player-"+in.Name, nil)
		if err != nil {
			return position{}, err
		}
		return zlnode.Request[position](c, c.Node().Actor(ref.ID), "where", struct{}{})
	})
	zlnode.OnPacket(sessions, "leave", func(c *zlnode.SessionCall, _ *visitor, why string) error {
		c.Session().Close(why)
		return nil
	})
	zlnode.Relay(sessions, "move", "player")
	return app
}

func main() {
	page := flag.String("page", "127.0.0.1:8080", "`address` of the page")
	game := flag.String("game", "127.0.0.1:0", "`address` of the node's WebSocket")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *page, *game, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run serves the page and a node with a store of its own until ctx ends. The page's URL
// goes to out, in a line of its own.
func run(ctx context.Context, page, game string, out io.Writer) (err error) {
	store, err := zlnode.StartEmbeddedStore("")
	if err != nil {
		return err
	}
	defer store.Close()
	node, err := zlnode.Start(ctx, zlnode.Config{
		Role: zlnode.RoleServer, Listen: "127.0.0.1:0", MeshKey: []byte(rand.Text()), StoreURL: store.URL(),
		Sessions: []zlnode.SessionListener{{Addr: game, Type: "browser", Transport: zlnode.WS, IdleTimeout: -1}},
	}, define())
	if err != nil {
		return err
	}
	defer func() {
		last, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, node.Shutdown(last))
	}()

	listener, err := net.Listen("tcp", page)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler(node.SessionAddrs()[0]), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	fmt.Fprintf(out, "http://%s/\n", listener.Addr())
	select {
	case err = <-served:
		return err
	case <-ctx.Done():
		err = server.Close()
		if end := <-served; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	}
}

// handler serves the page, and where the node's WebSocket is.
func handler(game net.Addr) http.Handler {
	root, err := fs.Sub(files, "page")
	if err != nil {
		panic(err) // the folder is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(root))
	mux.HandleFunc("GET /server.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]string{"url": "ws://" + game.String() + "/"}) // the browser tells if it fails
	})
	return mux
}
