// Command channels has nodes talk to each other without any Actor, and without a Store: two
// matchmakers serve a channel in the share of their weights, a lobby asks it, and a topic tells
// all of them of the new season. Here the nodes are in one process; they need not be.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log"
	"strings"

	"github.com/zlnode/zlnode"
)

// Query asks for a match, Match is the answer, Season is what the topic tells.
type (
	Query  struct{ Level int }
	Match  struct{ Room, By string }
	Season struct{ Name string }
)

// matchmaking is what nodes do that serve the channel "match".
func matchmaking() *zlnode.App {
	app := zlnode.NewApp()
	match := zlnode.DefineChannel(app, "match", zlnode.HandlerOptions{Concurrency: 64})
	zlnode.Filter(match, func(c *zlnode.NodeCall, next func() error) error {
		if !strings.HasPrefix(c.From(), "lobby-") { // its RID, which Config.MeshTLS proves
			return zlnode.Errorf(zlnode.Rejected, "%s may not ask for matches", c.From())
		}
		return next()
	})
	zlnode.OnChannelRequest(match, "find", func(c *zlnode.NodeCall, q Query) (Match, error) {
		return Match{Room: fmt.Sprintf("arena-%d", q.Level/10), By: c.Node().RID()}, nil
	})
	zlnode.OnNodeRequest(app, "reload", func(c *zlnode.NodeCall, table string) (string, error) { // to one node, by its RID
		return fmt.Sprintf("%s has read %s again", c.Node().RID(), table), nil
	})
	return app
}

func main() {
	ctx := context.Background()
	key := []byte(rand.Text()) // of the mesh: the same at all nodes

	app, heard := matchmaking(), make(chan string, 2)
	var matchmakers []zlnode.Peer
	for rid, weight := range map[string]int{"match-1": 300, "match-2": 100} {
		// Their Role is the default, RoleNone: they have to do with no Actors.
		node, err := zlnode.Start(ctx, zlnode.Config{
			RID: rid, MeshKey: key, Listen: "127.0.0.1:0", Channels: []zlnode.Channel{{Name: "match", Weight: weight}},
		}, app)
		check(err)
		defer stop(node)
		_, err = zlnode.Subscribe(node.Topic("world"), "season", func(c *zlnode.TopicCall, s Season) error {
			heard <- fmt.Sprintf("%s hears of the season of %s", c.Node().RID(), s.Name)
			return nil
		})
		check(err)
		matchmakers = append(matchmakers, zlnode.Peer{RID: rid, Endpoint: node.Endpoint()})
	}

	// Without a Store a node dials those that it names; with one it finds them by itself.
	lobby, err := zlnode.Start(ctx, zlnode.Config{RID: "lobby-1", MeshKey: key, Peers: matchmakers}, zlnode.NewApp())
	check(err)
	defer stop(lobby)
	check(lobby.WaitChannel(ctx, "match", 2)) // until then a request could be Unavailable

	found := map[string]int{}
	for level := range 8 {
		m, err := zlnode.Request[Match](ctx, lobby.Channel("match"), "find", Query{Level: level})
		check(err)
		found[m.By]++
	}
	fmt.Println("matches found by", found)

	for _, rid := range []string{"match-1", "match-2"} {
		answer, err := zlnode.Request[string](ctx, lobby.Peer(rid), "reload", "the map list")
		check(err)
		fmt.Println(answer)
	}

	// What a node subscribes to it has told before it answered. Publishing waits for nobody.
	p, err := zlnode.Publish(ctx, lobby.Topic("world"), "season", Season{Name: "frost"})
	check(err)
	fmt.Println("published to", p.Nodes, "nodes")
	for range p.Nodes {
		fmt.Println(<-heard)
	}

	tool, err := zlnode.Start(ctx, zlnode.Config{RID: "tool-1", MeshKey: key, Peers: matchmakers}, zlnode.NewApp())
	check(err)
	defer stop(tool)
	check(tool.WaitChannel(ctx, "match", 2))
	_, err = zlnode.Request[Match](ctx, tool.Channel("match"), "find", Query{})
	fmt.Println("rejected:", errors.Is(err, zlnode.Rejected))
}

func stop(n *zlnode.Node) { check(n.Shutdown(context.Background())) }

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
