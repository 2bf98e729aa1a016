package redislua

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/store"
)

func TestOpenNamesTheAddressThatDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silentAddr := l.Addr().String() // accepts, by its backlog, and never answers
	defer func() { _ = l.Close() }()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedAddr := closed.Addr().String()
	_ = closed.Close()
	for _, addr := range []string{silentAddr, closedAddr} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		s, err := Open(ctx, Options{URL: "redis://user:secret@" + addr})
		cancel()
		if s != nil || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), addr) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open = %v, %v; want ErrUnavailable that names %s and no secret", s, err, addr)
		}
	}
}

func TestOpenRefusesWhatCannotBe(t *testing.T) {
	for _, o := range []Options{
		{},
		{URL: "127.0.0.1:6379"},
		{URL: "http://user:secret@127.0.0.1"},
		{URL: "redis://user:secret@127.0.0.1:port"},
		{URL: "redis://user:secret@127.0.0.1:1/x"},
		{URL: "redis://user:secret@127.0.0.1:1/1/2"},
		{URL: "redis://user:secret@127.0.0.1:1?max_retries=3"},
		{URL: "redis://user:secret@127.0.0.1:1?cluster=true&addr=nowhere"},
		{URL: "redis://127.0.0.1:1", Namespace: "a}b"},
		{URL: "redis://127.0.0.1:1", Namespace: strings.Repeat("x", 65)},
		{URL: "redis://127.0.0.1:1", PoolSize: -1},
		{URL: "redis://127.0.0.1:1", Timeout: -1},
		{URL: "redis://127.0.0.1:1", WaitReplicas: -1},
		{URL: "redis://127.0.0.1:1", WaitReplicas: 1, WaitTimeout: -1},
		{URL: "redis://127.0.0.1:1", WaitReplicas: 1, WaitTimeout: time.Second, Timeout: time.Second},
		{URL: "redis://user:secret@127.0.0.1:1?cluster=true", WaitReplicas: 1},
		{URL: "redis://user:secret@127.0.0.1:1?ca_file=/etc/ca.pem"},
		{URL: "rediss://user:secret@127.0.0.1:1?ca_file=/nowhere.pem"},
		{URL: "rediss://user:secret@127.0.0.1:1?ca_file=open_test.go"},
		{URL: "rediss://user:secret@127.0.0.1:1?cert_file=/nowhere.pem"},
	} {
		s, err := Open(t.Context(), o)
		if s != nil || !errors.Is(err, store.ErrInvalid) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%+v) = %v, %v; want ErrInvalid without the secret", o, s, err)
		}
	}
}

func TestURLFormsNameTheirServers(t *testing.T) {
	for url, want := range map[string]string{
		"redis://h:1/2":                        "h:1",
		"redis://u:p@h":                        "h:6379",
		"rediss://h:1":                         "h:1",
		"unix:///tmp/redis.sock":               "/tmp/redis.sock",
		"redis://h:1?cluster=true&addr=h2:2":   "Cluster h:1,h2:2",
		"redis://h:1?cluster=false":            "h:1",
		"redis://h:1/3?master_name=m&addr=i:2": "master m of Sentinel h:1,i:2",
	} {
		got, err := parseURL(url)
		if err != nil || got.name != want {
			t.Errorf("parseURL(%s) names %q, %v; want %q", url, got.name, err, want)
		}
	}
	sentinel, err := parseURL("redis://su:sp@h:1/3?master_name=m&username=u&password=p")
	if err != nil || sentinel.SentinelUsername != "su" || sentinel.SentinelPassword != "sp" || sentinel.Username != "u" ||
		sentinel.Password != "p" || sentinel.DB != 3 {
		t.Errorf("Sentinel form reads %+v, %v", sentinel.UniversalOptions, err)
	}
}

func TestPasswordAndDatabaseAreUsed(t *testing.T) {
	e := embeddedRedis(t)
	e.server.RequireUserAuth("zl", "secret")
	if s, err := Open(t.Context(), Options{URL: "redis://zl:wrong-secret@" + e.server.Addr()}); s != nil || !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "secret") {
		t.Errorf("Open with a wrong password = %v, %v; want ErrUnavailable without it", s, err)
	}
	s := newScene(t, openStore(t, "redis://zl:secret@"+e.server.Addr()+"/3"))
	s.create("player-1")
	if n := len(e.server.DB(3).Keys()); n == 0 {
		t.Error("nothing was written to database 3")
	}
}

func TestCloseGivesUpDials(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error)
	go func() {
		conn, err := l.Accept() // takes part in no TLS handshake
		cancel()
		if err == nil {
			_, err = io.Copy(io.Discard, conn) // to the end of the connection
			_ = conn.Close()
		}
		ended <- err
	}()
	_, err = Open(ctx, Options{URL: "rediss://" + l.Addr().String(), DialTimeout: time.Hour, Timeout: time.Hour})
	if !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("Open = %v; want ErrUnavailable", err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestEmbeddedNamesAnAddressThatIsTaken(t *testing.T) {
	e := embeddedRedis(t)
	taken := e.server.Addr()
	if second, err := StartEmbedded(taken); second != nil || err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("StartEmbedded(%s) = %v, %v; want an error that names it", taken, second, err)
	}
	e.Close()
	e.Close()
}

func TestEmbeddedKeysExpire(t *testing.T) {
	e := embeddedRedis(t)
	raw := rawClient(t, e.URL())
	if err := raw.Set(within(t), "key", "value", time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	until(t, "the key to expire", func() bool { return raw.Exists(within(t), "key").Val() == 0 })
}
