// Package lua holds the Location Store's scripts, one Lua file per atomic
// operation. They run on Redis 7 and on miniredis.
//
// A script's source is its own file behind the parts that it uses: local
// functions that scripts share. The caller computes all keys; a script reaches no
// key that is not in KEYS. Checks come first and writes last, with no check behind
// the first write, so an error on the way leaves nothing half done.
package lua

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"strings"
)

//go:embed *.lua part/*.lua
var files embed.FS

// Script is one operation.
type Script struct {
	Name   string // the file's name without .lua
	Source string
	SHA    string // SHA-1 of the source in hex, as EVALSHA takes it
}

// The scripts. Each file's header says its keys, arguments and answer.
var (
	LeaseAcquire = load("lease_acquire", "lease", "node")
	LeaseRenew   = load("lease_renew", "lease")
	LeaseRelease = load("lease_release", "lease", "node")
	NodePublish  = load("node_publish", "lease")
	NodeRemove   = load("node_remove", "node")
	NodeIndex    = load("node_index")
	NodePage     = load("node_page", "lease", "actor")
	ActorRead    = load("actor_read", "lease", "actor")
	ActorReserve = load("actor_reserve", "lease", "actor")
	ActorFinish  = load("actor_finish", "lease", "actor")
	ActorDelete  = load("actor_delete", "lease", "actor")
	TerminalRead = load("terminal_read", "lease", "actor")
)

// All returns every script.
func All() []Script {
	return []Script{
		LeaseAcquire, LeaseRenew, LeaseRelease,
		NodePublish, NodeRemove, NodeIndex, NodePage,
		ActorRead, ActorReserve, ActorFinish, ActorDelete,
		TerminalRead,
	}
}

// New returns the script with that source.
func New(name, source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
}

// load panics for a file that is not there: only a build without it can lack it.
func load(name string, parts ...string) Script {
	var source strings.Builder
	for _, part := range append([]string{"base"}, parts...) {
		source.Write(read("part/" + part + ".lua"))
	}
	source.Write(read(name + ".lua"))
	return New(name, source.String())
}

func read(path string) []byte {
	text, err := files.ReadFile(path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return text
}
