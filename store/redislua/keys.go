package redislua

import (
	"encoding/hex"
	"strconv"

	"github.com/zlnode/zlnode/store"
)

// keys names the keys of one namespace. All begin with one hash tag, so that a
// Cluster keeps them in one slot and a script may touch them together.
type keys struct {
	prefix string

	epoch, confirm                              string
	leases, leaseEnds, freed                    string
	nodes, entries, change                      string
	capacity, reserved, owned, objects          string
	leaseCounter, objectCounter, versionCounter string
}

func newKeys(namespace string) keys {
	p := "{zl:" + namespace + "}:"
	return keys{
		prefix:         p,
		epoch:          p + "epoch",
		confirm:        p + "confirm",
		leases:         p + "leases",
		leaseEnds:      p + "lease-ends",
		freed:          p + "freed",
		nodes:          p + "nodes",
		entries:        p + "entries",
		change:         p + "change",
		capacity:       p + "capacity",
		reserved:       p + "reserved",
		owned:          p + "owned",
		objects:        p + "objects",
		leaseCounter:   p + "counter:lease",
		objectCounter:  p + "counter:object",
		versionCounter: p + "counter:version",
	}
}

func (k *keys) node(rid string) string     { return k.prefix + "node:" + rid }
func (k *keys) object(id string) string    { return k.prefix + "object:" + escape(id) }
func (k *keys) request(id string) string   { return k.prefix + "request:" + escape(id) }
func (k *keys) first(id string) string     { return k.prefix + "first:" + escape(id) }
func (k *keys) members(id string) string   { return k.prefix + "members:" + escape(id) }
func (k *keys) pending(id string) string   { return k.prefix + "pending:" + escape(id) }
func (k *keys) inventory(id string) string { return k.prefix + "inventory:" + escape(id) }

// spot names the keys of a Spot: its row, its members and its pending ones. "" is no
// Spot, whose keys nothing writes.
func (k *keys) spot(id string) []string { return []string{k.object(id), k.members(id), k.pending(id)} }

func (k *keys) terminal(op store.OperationKey) string { return k.prefix + "terminal:" + operation(op) }

func (k *keys) removed(id string) string { return k.prefix + "removed:" + escape(id) }

// operation is how an operation stands in records and keys: RID:lifecycle:id.
// None of the three can hold a colon.
func operation(op store.OperationKey) string {
	return op.SourceRID + ":" + decimal(op.SourceLifecycle) + ":" + hexOf(op.Op)
}

// creationOp is a creation's operation as rows have it: its id, kept apart by the c from
// those of other changes, and its source. One field with both would be too long for
// Redis' compact form of a hash.
func creationOp(op store.OperationKey) (id, source string) {
	return "c" + hexOf(op.Op), process(op.SourceRID, op.SourceLifecycle)
}

// process is how a process stands in records: RID:lifecycle.
func process(rid string, lifecycle store.LeaseGen) string { return rid + ":" + decimal(lifecycle) }

func hexOf[B ~[16]byte](id B) string {
	b := [16]byte(id)
	return hex.EncodeToString(b[:])
}

// escape makes an id part of a key: bytes outside [A-Za-z0-9._-] turn into %XX, so
// that braces, colons, NUL and line ends mean nothing. Different ids stay different.
func escape(id string) string {
	const hexDigits = "0123456789ABCDEF"
	out := make([]byte, 0, 3*len(id))
	for _, c := range []byte(id) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
			out = append(out, c)
		default:
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(out)
}

// decimal is the form in which generations and versions travel and are stored.
func decimal[G ~uint64](g G) string { return strconv.FormatUint(uint64(g), 10) }
