package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zlnode/zlnode/internal/errkind"
	"github.com/zlnode/zlnode/store"
)

func serverConfig() Config {
	return Config{
		RID: "a", Role: store.RoleServer, Listen: "127.0.0.1:0", StoreURL: "redis://x", MeshKey: []byte("0123456789abcdef"), Weight: 100,
	}
}

func actorApp() *App {
	app := NewApp()
	app.AddActor("player", func(*ObjectContext) (any, error) { return 1, nil })
	return app
}

// sessions configures a session port of a type that is known.
func sessions(l SessionListener) func(*Config) {
	l.Addr, l.Type = "127.0.0.1:0", "known"
	return func(c *Config) {
		c.Sessions = []SessionListener{l}
		*c = c.withDefaults()
	}
}

func TestAConfigurationIsCheckedBeforeAnythingIsOpened(t *testing.T) {
	good := serverConfig().withDefaults()
	if err := good.check(actorApp()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		kind   errkind.Kind
		says   string
	}{
		"RID":               {func(c *Config) { c.RID = "a b" }, errkind.InvalidOperation, "RID"},
		"mesh":              {func(c *Config) { c.Mesh = strings.Repeat("m", 65) }, errkind.InvalidOperation, "mesh name"},
		"role":              {func(c *Config) { c.Role = 9 }, errkind.InvalidOperation, "role 9"},
		"no store":          {func(c *Config) { c.StoreURL = "" }, errkind.NotConfigured, "Location Store"},
		"short key":         {func(c *Config) { c.MeshKey = []byte("short") }, errkind.NotConfigured, "at least 16 bytes"},
		"no link port":      {func(c *Config) { c.Listen = "" }, errkind.NotConfigured, "link address"},
		"wildcard":          {func(c *Config) { c.Listen = ":7000" }, errkind.NotConfigured, "Advertise"},
		"weight":            {func(c *Config) { c.Weight = 10_001 }, errkind.InvalidOperation, "10001"},
		"negative limit":    {func(c *Config) { c.MaxActors = -1 }, errkind.InvalidOperation, "-1"},
		"negative spots":    {func(c *Config) { c.MaxSpots = -2 }, errkind.InvalidOperation, "-2"},
		"too many spots":    {func(c *Config) { c.MaxSpots = 1 << 31 }, errkind.InvalidOperation, "2147483648"},
		"object's messages": {func(c *Config) { c.ObjectQueueMessages = objectQueueMessagesMax + 1 }, errkind.InvalidOperation, "ObjectQueueMessages"},
		"object's bytes":    {func(c *Config) { c.ObjectQueueBytes = objectQueueBytesMin - 1 }, errkind.InvalidOperation, "ObjectQueueBytes"},
		"queues":            {func(c *Config) { c.QueueBytes = queueBytesMin - 1 }, errkind.InvalidOperation, "QueueBytes"},
		"lease":             {func(c *Config) { c.Lease.Margin = c.Lease.TTL }, errkind.InvalidOperation, "lease"},
		"hold":              {func(c *Config) { c.Lease.Hold = c.Lease.TTL - 1 }, errkind.InvalidOperation, "recovery hold"},
		"bad address":       {func(c *Config) { c.Listen = "nowhere" }, errkind.InvalidOperation, "nowhere"},
		"session type": {
			func(c *Config) { c.Sessions = []SessionListener{{Addr: "127.0.0.1:0", Type: "none"}} },
			errkind.NotConfigured, `"none"`,
		},
		"a transport":         {sessions(SessionListener{Transport: 9}), errkind.InvalidOperation, "Transport 9"},
		"no TLS":              {sessions(SessionListener{Transport: WSS}), errkind.InvalidOperation, "neither TLSFiles nor TLS"},
		"TLS for nothing":     {sessions(SessionListener{TLS: &tls.Config{}}), errkind.InvalidOperation, "TLS is set"},
		"files for nothing":   {sessions(SessionListener{Transport: WS, TLSFiles: TLSFiles{CertFile: "c"}}), errkind.InvalidOperation, "TLSFiles are named"},
		"TLS without a key":   {sessions(SessionListener{Transport: TLS, TLS: &tls.Config{}}), errkind.InvalidOperation, "TLS has no certificate"},
		"missing files":       {sessions(SessionListener{Transport: TLS, TLSFiles: TLSFiles{CertFile: "no.pem"}}), errkind.InvalidOperation, `TLSFiles: engine: certificate "no.pem"`},
		"two configurations":  {sessions(SessionListener{Transport: TLS, TLS: &tls.Config{}, TLSFiles: TLSFiles{CertFile: "c"}}), errkind.InvalidOperation, "both TLS and TLSFiles"},
		"origins of TCP":      {sessions(SessionListener{Origins: []string{"https://x"}}), errkind.InvalidOperation, "Origins"},
		"a proxy's network":   {sessions(SessionListener{TrustedProxies: []netip.Prefix{{}}}), errkind.InvalidOperation, "TrustedProxies"},
		"a network's bits":    {sessions(SessionListener{NetworkBits4: 33}), errkind.InvalidOperation, "NetworkBits4 33"},
		"a rate":              {sessions(SessionListener{ConnRate: ConnRate{PerSecond: -1}}), errkind.InvalidOperation, "ConnRate"},
		"a network's rate":    {sessions(SessionListener{NetworkRate: ConnRate{Burst: -1}}), errkind.InvalidOperation, "NetworkRate"},
		"an input rate":       {sessions(SessionListener{InputRate: InputRate{BurstFrames: -1}}), errkind.InvalidOperation, "InputRate"},
		"a burst for nothing": {sessions(SessionListener{InputRate: InputRate{BytesPerSecond: 64 << 10, BurstBytes: 64<<10 - 1}}), errkind.InvalidOperation, "FrameMax is 65536"},
		"a frame's time":      {sessions(SessionListener{FrameTimeout: -1}), errkind.InvalidOperation, "FrameTimeout"},
	} {
		bad := good
		c.change(&bad)
		app := actorApp()
		app.Sessions["known"] = &SessionType{Name: "known"}
		err := bad.check(app)
		if KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %s", name, err, c.kind, c.says)
		}
	}
	if err := good.check(NewApp()); KindOf(err) != errkind.NotConfigured {
		t.Errorf("a server without actor types: %v", err)
	}
}

func TestTheRecoveryHoldIsTheLeases(t *testing.T) {
	for hold, want := range map[time.Duration]time.Duration{0: 20 * time.Second, -1: -1, time.Minute: time.Minute} {
		c := serverConfig()
		c.RecoveryHold = hold
		if c = c.withDefaults(); c.RecoveryHold != want || c.Lease.Hold != want {
			t.Errorf("hold %v is %v at the Store and %v for the lease, want %v", hold, c.RecoveryHold, c.Lease.Hold, want)
		}
	}
}

func TestGeneratedRIDsAreValidAndDiffer(t *testing.T) {
	a, b := Config{RIDPrefix: "gw"}.withDefaults(), Config{RIDPrefix: "gw"}.withDefaults()
	if !ridForm.MatchString(a.RID) || !strings.HasPrefix(a.RID, "gw-") || len(a.RID) != 11 || a.RID == b.RID {
		t.Errorf("%q, %q", a.RID, b.RID)
	}
}

func TestEveryErrorHasAKind(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind errkind.Kind
	}{
		{fail(errkind.NotFound, "op", "x", "no"), errkind.NotFound},
		{fmt.Errorf("wrapped: %w", fail(errkind.Rejected, "op", "x", "no")), errkind.Rejected},
		{errkind.DataLost, errkind.DataLost},
		{context.DeadlineExceeded, errkind.DeadlineExceeded},
		{errors.New("plain"), errkind.InternalFailure},
		{fromStore(store.ErrUnknown, "op", "x"), errkind.Unavailable},
		{fromStore(store.ErrUnavailable, "op", "x"), errkind.Unavailable},
		{fromStore(store.ErrCorrupt, "op", "x"), errkind.DataLost},
		{fromStore(store.ErrInvalid, "op", "x"), errkind.InvalidOperation},
	} {
		if got := KindOf(c.err); got != c.kind {
			t.Errorf("%v: %v, want %v", c.err, got, c.kind)
		}
	}
}

func TestAClientLearnsOnlyWhatTheApplicationSays(t *testing.T) {
	own := Errorf(errkind.Rejected, "the room is full")
	if got := own.clientText(); got != "the room is full" {
		t.Errorf("application's text: %q", got)
	}
	for k := range errkind.Kind(errkind.Count) {
		inner := fail(k, "request", "player-42", "secret of node a")
		if got := inner.clientText(); got == "" || strings.Contains(got, "secret") {
			t.Errorf("%v: %q", k, got)
		}
	}
}

func TestTheMeshesOfAConfigurationAreChecked(t *testing.T) {
	key := [][]byte{[]byte("0123456789abcdef")}
	good := serverConfig().withDefaults()
	good.Peers = []Peer{{RID: "b", Endpoint: "b:1"}, {Endpoint: "c:1"}}
	good.Meshes = []Mesh{{Name: "other", Keys: key, Role: store.RoleClient}, {Name: "none", Keys: key}}
	if err := good.check(actorApp()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*Config)
		kind   errkind.Kind
		says   string
	}{
		"two servers":          {func(c *Config) { c.Meshes[0].Role, c.Meshes[0].Listen = store.RoleServer, "127.0.0.1:0" }, errkind.InvalidOperation, `RoleServer in meshes "main" and "other"`},
		"a name twice":         {func(c *Config) { c.Meshes[0].Name = "main" }, errkind.InvalidOperation, `"main" is named twice`},
		"no name":              {func(c *Config) { c.Meshes[0].Name = "" }, errkind.InvalidOperation, "mesh name"},
		"no key":               {func(c *Config) { c.Meshes[1].Keys = nil }, errkind.NotConfigured, `mesh "none": Keys`},
		"a short second key":   {func(c *Config) { c.Meshes[0].Keys = append(key, []byte("short")) }, errkind.NotConfigured, "it has 5"},
		"five keys":            {func(c *Config) { c.MeshKey, c.MeshKeys = nil, append(key, key[0], key[0], key[0], key[0]) }, errkind.InvalidOperation, "5 mesh keys"},
		"a key and keys":       {func(c *Config) { c.MeshKeys = key }, errkind.InvalidOperation, "both MeshKey and MeshKeys"},
		"seventeen":            {func(c *Config) { c.Meshes = make([]Mesh, meshesMax) }, errkind.InvalidOperation, "17 meshes"},
		"a wildcard":           {func(c *Config) { c.Meshes[0].Listen = ":1" }, errkind.NotConfigured, `mesh "other": link address`},
		"a peer's address":     {func(c *Config) { c.Peers[0].Endpoint = "nowhere" }, errkind.InvalidOperation, `peer "nowhere"`},
		"a peer without host":  {func(c *Config) { c.Peers[0].Endpoint = ":1" }, errkind.InvalidOperation, "host and port"},
		"a peer's name":        {func(c *Config) { c.Peers[0].RID = "b b" }, errkind.InvalidOperation, `RID "b b"`},
		"itself":               {func(c *Config) { c.Peers[0].RID = "a" }, errkind.InvalidOperation, "own RID"},
		"a peer twice":         {func(c *Config) { c.Peers[1].Endpoint = "b:1" }, errkind.InvalidOperation, "named twice"},
		"a peer's name twice":  {func(c *Config) { c.Peers[1].RID = "b" }, errkind.InvalidOperation, "named twice"},
		"peers without a key":  {func(c *Config) { *c = Config{RID: "a", Peers: c.Peers}.withDefaults() }, errkind.NotConfigured, "MeshKey"},
		"too many peers":       {func(c *Config) { c.Peers = make([]Peer, manualPeersMax+1) }, errkind.InvalidOperation, "1025 Peers"},
		"objects and no store": {func(c *Config) { *c = Config{RID: "a", Meshes: c.Meshes}.withDefaults() }, errkind.NotConfigured, "Location Store"},
	} {
		bad := good
		bad.Peers, bad.Meshes = slices.Clone(good.Peers), slices.Clone(good.Meshes)
		c.change(&bad)
		if err := bad.check(actorApp()); KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v that says %s", name, err, c.kind, c.says)
		}
	}
	alone := Config{RID: "a", MeshKeys: append(key, key[0]), Peers: good.Peers}.withDefaults()
	if err := alone.check(NewApp()); err != nil {
		t.Errorf("without a Store, and without objects: %v", err)
	}
}
