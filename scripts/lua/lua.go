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
	"regexp"
	"slices"
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
	EpochNote        = load("epoch_note", "replication")
	LeaseAcquire     = load("lease_acquire", "replication", "epoch", "lease", "node")
	LeaseRenew       = load("lease_renew", "replication", "epoch", "lease")
	LeaseRelease     = load("lease_release", "replication", "epoch", "lease", "node")
	NodePublish      = load("node_publish", "replication", "epoch", "lease", "node")
	NodeRemove       = load("node_remove", "replication", "epoch", "node")
	NodeIndex        = load("node_index")
	NodePage         = load("node_page", "lease", "slots")
	ObjectRead       = load("object_read", "replication", "epoch", "lease", "row")
	ObjectReserve    = load("object_reserve", "replication", "epoch", "lease", "row", "slots", "terminal", "target")
	ObjectFinish     = load("object_finish", "replication", "epoch", "lease", "row", "slots", "terminal", "fence")
	CreationCancel   = load("creation_cancel", "replication", "epoch", "lease", "row", "counts", "books", "removal")
	FirstRead        = load("first_read")
	FirstAdvance     = load("first_advance", "replication", "epoch", "lease", "row", "counts", "books", "fence")
	TerminalRead     = load("terminal_read", "terminal")
	ObjectDelete     = load("object_delete", "replication", "epoch", "lease", "row", "counts", "books", "keys", "fence", "removal")
	ObjectFree       = load("object_free", "replication", "epoch", "lease", "row", "counts", "books", "keys", "removal")
	ObjectReassert   = load("object_reassert", "replication", "epoch", "lease", "row", "counts", "books", "keys", "spot", "removal", "claim")
	SpotChange       = load("spot_change", "replication", "epoch", "lease", "row", "counts", "books", "keys", "fence", "spot")
	MoveReserve      = load("move_reserve", "replication", "epoch", "lease", "row", "slots", "counts", "books", "keys", "fence", "spot", "target")
	MoveCommit       = load("move_commit", "replication", "epoch", "lease", "row", "counts", "books", "keys", "move", "spot")
	MoveEnd          = load("move_end", "replication", "epoch", "lease", "row", "counts", "books", "keys", "move")
	InventoryPut     = load("inventory_put", "replication", "epoch", "move")
	InventoryRead    = load("inventory_read")
	AggregatePrepare = load("aggregate_prepare", "replication", "epoch", "lease", "row", "counts", "books", "keys", "move")
	MoveComplete     = load("move_complete", "replication", "epoch", "lease", "row", "fence")
	Page             = load("page")
	RowsRead         = load("rows_read", "replication", "epoch", "lease")
)

// all are the scripts, as load made them.
var all []Script

// All returns every script.
func All() []Script { return slices.Clone(all) }

// New returns the script with that source.
func New(name, source string) Script {
	sum := sha1.Sum([]byte(source))
	return Script{Name: name, Source: source, SHA: hex.EncodeToString(sum[:])}
}

// load makes a script of a file behind its parts. It panics for a file that is not there:
// only a build without it can lack it.
func load(name string, parts ...string) Script {
	source := string(read(name + ".lua"))
	for _, part := range slices.Backward(append([]string{"base"}, parts...)) {
		source = named(string(read("part/"+part+".lua")), source) + source
	}
	all = append(all, New(name, source))
	return all[len(all)-1]
}

var functionText = regexp.MustCompile(`(?m)^(?:--.*\n)*local function (\w+)\((?s:.*?)\nend\n`)

// named is the part without the functions that nothing names: a script makes its
// functions anew each time it runs.
func named(part, by string) string {
	functions := functionText.FindAllStringSubmatchIndex(part, -1)
	for _, at := range slices.Backward(functions) { // those before may be named by those behind
		begin, end, name := at[0], at[1], part[at[2]:at[3]]
		if !strings.Contains(part[end:], name+"(") && !strings.Contains(by, name+"(") {
			part = part[:begin] + part[end:]
		}
	}
	return part
}

func read(path string) []byte {
	text, err := files.ReadFile(path)
	if err != nil {
		panic("lua: " + err.Error())
	}
	return text
}
