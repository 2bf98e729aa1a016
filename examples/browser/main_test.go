package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/client"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}

// get returns what the page's server has at that URL.
func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", url, r.Status, err)
	}
	return string(body)
}

// What the page does is in webtest, in a browser; this is the same by the Go client.
func TestAPlayerMovesOverAWebSocket(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	ctx, stop := context.WithCancel(t.Context())
	line, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, "127.0.0.1:0", "127.0.0.1:0", out) }()
	page, err := bufio.NewReader(line).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	page = strings.TrimSpace(page)
	if body := get(t, page); !strings.Contains(body, "page.js") {
		t.Errorf("the page is %s", body)
	}
	var server struct{ URL string }
	if err := json.Unmarshal([]byte(get(t, page+"server.json")), &server); err != nil {
		t.Fatal(err)
	}
	pushes := make(chan moved, 1)
	c, err := client.Dial(ctx, client.Options{Addr: server.URL, OnPush: func(m *client.Message) {
		var to moved
		if err := m.JSON(&to); err != nil {
			t.Error(err)
		}
		pushes <- to
	}})
	if err != nil {
		t.Fatal(err)
	}
	var at position
	if err := c.RequestJSON(ctx, "login", login{Name: "ada"}, &at); err != nil || at != (position{5, 5}) {
		t.Errorf("at %v, %v", at, err)
	}
	if err := c.RequestJSON(ctx, "move", move{DX: 1}, &at); err != nil || at != (position{6, 5}) {
		t.Errorf("at %v, %v", at, err)
	}
	if to := <-pushes; to != (moved{6, 5, 1}) {
		t.Errorf("push %v", to)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
