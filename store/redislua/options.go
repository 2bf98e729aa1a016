package redislua

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/zlnode/zlnode/store"
)

// Options says which Redis and which namespace. Only URL is needed.
type Options struct {
	// URL of the server:
	//
	//	redis://user:password@host:port/db        one server; rediss:// with TLS
	//	unix:///path/to/socket?db=0
	//	redis://host:port?cluster=true&addr=host2:port2        a Cluster, by some of its nodes
	//	redis://user:password@sentinel:port/db?master_name=m&addr=sentinel2:port2
	//
	// With master_name, user and password are the Sentinels' own; the servers'
	// are the parameters username and password. Other parameters are refused: what
	// can be tuned is below.
	//
	// With rediss://, each server must have a certificate for the name or address by
	// which it is dialled. ca_file=<path> names the certificates (PEM) that may sign it
	// instead of the system's; cert_file=<path> and key_file=<path> are the Store's own,
	// for servers that ask for one. skip_verify=true accepts any certificate.
	URL string
	// Namespace separates worlds on one Redis: 1–64 bytes of [A-Za-z0-9._-].
	// Default "default". All nodes of a world must name the same one.
	Namespace string
	// PoolSize is the most connections held to a server. A call that finds all
	// of them busy waits within its Timeout. Default: 10 per CPU.
	PoolSize int
	// DialTimeout bounds making one connection. Default 1 s. Longer than Timeout
	// has no effect.
	DialTimeout time.Duration
	// Timeout bounds each call as a whole: waiting for a connection, dialling,
	// sending and the answer. Default 3 s. A lease must be renewed before its end
	// also by a call that takes this long: keep it well under a third of the TTL.
	Timeout time.Duration
	// RecoveryHold is how long nothing new is created after the namespace was found
	// empty, or after a failover: until then, processes may act whose leases and rows
	// were lost. It must be at least the lease TTL and fencing margin of the world's
	// nodes. Default 20 s. Negative: none, for a namespace that nobody can have used
	// before, like a random one.
	RecoveryHold time.Duration
	// WaitReplicas is how many replicas must have confirmed a change before its call
	// returns, so that a failover to one of them loses no change that was answered. Fewer
	// within WaitTimeout is ErrUnknown: the change is at the primary, and a repeat with
	// the same operation answers once they have it. That goes for renewals of leases too:
	// without the replicas nobody stays owner. Reads do not wait. Default 0: none. Not
	// with a Cluster.
	WaitReplicas int
	// WaitTimeout bounds the wait for replicas. Default 1 s. It must be below Timeout. A
	// call holds its connection meanwhile.
	WaitTimeout time.Duration
}

const (
	defaultNamespace   = "default"
	defaultDialTimeout = time.Second
	defaultTimeout     = 3 * time.Second
	connsPerCPU        = 10

	defaultRecoveryHold = 20 * time.Second
	defaultWaitTimeout  = time.Second
)

func (o Options) withDefaults() (Options, error) {
	if o.Namespace == "" {
		o.Namespace = defaultNamespace
	}
	if o.PoolSize == 0 {
		o.PoolSize = connsPerCPU * runtime.GOMAXPROCS(0)
	}
	if o.DialTimeout == 0 {
		o.DialTimeout = defaultDialTimeout
	}
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.WaitTimeout == 0 {
		o.WaitTimeout = defaultWaitTimeout
	}
	switch {
	case o.RecoveryHold == 0:
		o.RecoveryHold = defaultRecoveryHold
	case o.RecoveryHold < 0:
		o.RecoveryHold = 0
	}
	if o.PoolSize < 0 || o.DialTimeout < 0 || o.Timeout < 0 {
		return o, fmt.Errorf("%w: pool size %d, dial timeout %v, timeout %v: none may be negative",
			store.ErrInvalid, o.PoolSize, o.DialTimeout, o.Timeout)
	}
	if o.WaitReplicas < 0 || o.WaitTimeout < 0 || (o.WaitReplicas > 0 && o.WaitTimeout >= o.Timeout) {
		return o, fmt.Errorf("%w: %d replicas within a wait timeout of %v and a timeout of %v: none may be negative, and the wait must be the shorter one",
			store.ErrInvalid, o.WaitReplicas, o.WaitTimeout, o.Timeout)
	}
	return o, store.CheckName("namespace", o.Namespace)
}

// server is what a URL names.
type server struct {
	redis.UniversalOptions
	name string // for messages: addresses without credentials
}

// parseURL leaves the reading of the forms to go-redis and takes from its result
// only where to connect and as whom. Errors never show the URL: it holds a password.
func parseURL(raw string) (server, error) {
	fail := func(err error) (server, error) {
		if u := (*url.Error)(nil); errors.As(err, &u) {
			err = u.Err
		}
		return server{}, fmt.Errorf("%w: Redis URL: %w; write redis://user:password@host:port/db, or rediss:// for TLS", store.ErrInvalid, err)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return fail(err)
	}
	query := u.Query()
	for param := range query {
		switch param {
		case "addr", "cluster", "db", "master_name", "username", "password", "skip_verify", "ca_file", "cert_file", "key_file":
		default:
			return fail(fmt.Errorf("parameter %q is not supported; see Options", param))
		}
	}
	take := func(param string) string { // what go-redis does not know
		defer query.Del(param)
		return query.Get(param)
	}
	cluster := take("cluster") == "true"
	ca, cert, key := take("ca_file"), take("cert_file"), take("key_file")
	u.RawQuery = query.Encode()

	var s server
	switch {
	case query.Has("master_name"):
		o, err := redis.ParseFailoverURL(u.String())
		if err != nil {
			return fail(err)
		}
		s = server{redis.UniversalOptions{
			Addrs: o.SentinelAddrs, MasterName: o.MasterName, DB: o.DB, TLSConfig: o.TLSConfig,
			Username: o.Username, Password: o.Password,
			SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
		}, "master " + o.MasterName + " of Sentinel " + strings.Join(o.SentinelAddrs, ",")}
	case cluster:
		o, err := redis.ParseClusterURL(u.String())
		if err != nil {
			return fail(err)
		}
		s = server{redis.UniversalOptions{
			Addrs: o.Addrs, IsClusterMode: true, TLSConfig: o.TLSConfig, Username: o.Username, Password: o.Password,
		}, "Cluster " + strings.Join(o.Addrs, ",")}
	default:
		o, err := redis.ParseURL(u.String())
		if err != nil {
			return fail(err)
		}
		s = server{redis.UniversalOptions{
			Addrs: []string{o.Addr}, DB: o.DB, TLSConfig: o.TLSConfig, Username: o.Username, Password: o.Password,
		}, o.Addr}
	}
	if err := secure(s.TLSConfig, ca, cert, key); err != nil {
		return fail(err)
	}
	return s, nil
}

// client makes a client that does what it is told once and nothing else: no
// retries, no identity or maintenance commands, no pool beside the one.
func (s server) client(o Options, alive context.Context) redis.UniversalClient {
	u := s.UniversalOptions
	u.Dialer = dialer(alive, o.DialTimeout, u.TLSConfig)
	u.Protocol = 2 // no push frames between answers
	u.MaxRetries = -1
	u.DialerRetries = 1
	u.DialTimeout = o.DialTimeout
	u.ReadTimeout = o.Timeout
	u.WriteTimeout = o.Timeout
	u.PoolTimeout = o.Timeout
	u.ContextTimeoutEnabled = true
	u.PoolSize = o.PoolSize
	u.PipelinePoolSize = -1
	u.DisableIdentity = true
	u.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch {
	case u.MasterName != "":
		return redis.NewFailoverClient(u.Failover())
	case u.IsClusterMode:
		c := u.Cluster()
		c.DisableRoutingPolicies = true // route by key, ask no COMMAND tables
		return redis.NewClusterClient(c)
	default:
		return redis.NewClient(u.Simple())
	}
}

// dialer makes connections that are given up when the Store closes: go-redis
// dials in the background and would not.
func dialer(alive context.Context, timeout time.Duration, config *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		defer context.AfterFunc(alive, cancel)()
		d := net.Dialer{}
		if config == nil {
			return d.DialContext(ctx, network, addr)
		}
		return (&tls.Dialer{NetDialer: &d, Config: config}).DialContext(ctx, network, addr)
	}
}
