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

	leases, leaseEnds                           string
	nodes, change                               string
	capacity, reserved, owned                   string
	leaseCounter, objectCounter, versionCounter string
}

func newKeys(namespace string) keys {
	p := "{zl:" + namespace + "}:"
	return keys{
		prefix:         p,
		leases:         p + "leases",
		leaseEnds:      p + "lease-ends",
		nodes:          p + "nodes",
		change:         p + "change",
		capacity:       p + "capacity",
		reserved:       p + "reserved",
		owned:          p + "owned",
		leaseCounter:   p + "counter:lease",
		objectCounter:  p + "counter:object",
		versionCounter: p + "counter:version",
	}
}

func (k *keys) node(rid string) string   { return k.prefix + "node:" + rid }
func (k *keys) actor(id string) string   { return k.prefix + "actor:" + escape(id) }
func (k *keys) request(id string) string { return k.prefix + "request:" + escape(id) }

func (k *keys) terminal(op store.OperationKey) string { return k.prefix + "terminal:" + operation(op) }

func (k *keys) deletion(op store.OpID) string {
	return k.prefix + "deletion:" + hex.EncodeToString(op[:])
}

// operation is how an operation stands in records and keys: RID:lifecycle:id.
// None of the three can hold a colon.
func operation(op store.OperationKey) string {
	return op.SourceRID + ":" + decimal(op.SourceLifecycle) + ":" + hex.EncodeToString(op.Op[:])
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
