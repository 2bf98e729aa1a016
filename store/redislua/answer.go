package redislua

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zlnode/zlnode/store"
)

// answer reads a script's answer word by word. The first thing that is not as it
// must be ends it: everything read from there on is zero and end returns the error.
type answer struct {
	script, key string
	words       []string
	read        int // words read so far
	reason      store.Reason
	err         error
}

// newAnswer reads the reason, which every answer begins with; it is 0 for unnoted.
func newAnswer(script, key string, words []string) (*answer, error) {
	a := &answer{script: script, key: key, words: words}
	word := a.word()
	if word == unnoted {
		return a, nil
	}
	reason, known := store.ParseReason(word)
	if !known {
		a.fail("reason", word)
		return nil, a.err
	}
	a.reason = reason
	return a, nil
}

func (a *answer) fail(what, word string) {
	if a.err == nil {
		a.err = fmt.Errorf("%w: %s of %s: word %d of the answer, %.80q, is no %s", store.ErrCorrupt, a.script, a.key, a.read, word, what)
	}
}

func (a *answer) more() bool { return a.err == nil && a.read < len(a.words) }

func (a *answer) word() string {
	if a.err != nil {
		return ""
	}
	if a.read == len(a.words) {
		a.fail("word", "")
		return ""
	}
	a.read++
	return a.words[a.read-1]
}

// number reads a decimal of at most max.
func (a *answer) number(what string, max uint64) uint64 {
	word := a.word()
	n, err := strconv.ParseUint(word, 10, 64)
	if a.err == nil && (err != nil || n > max) {
		a.fail(what, word)
		return 0
	}
	return n
}

func (a *answer) gen(what string) uint64 { return a.number(what, store.GenMax) }

func (a *answer) timeLeft() time.Duration {
	return time.Duration(a.number("time left", 1<<53)) * time.Millisecond
}

func (a *answer) hash(what string) (h store.Digest) {
	word := a.word()
	if a.err == nil && !unhex(h[:], word) {
		a.fail(what, word)
	}
	return h
}

// unhex reads all of dst from hex digits.
func unhex(dst []byte, digits string) bool {
	if len(digits) != hex.EncodedLen(len(dst)) {
		return false
	}
	_, err := hex.Decode(dst, []byte(digits))
	return err == nil
}

// parseOperation reads what the function operation wrote.
func parseOperation(word string) (op store.OperationKey, ok bool) {
	parts := strings.Split(word, ":")
	if len(parts) != 3 {
		return op, false
	}
	lifecycle, err := strconv.ParseUint(parts[1], 10, 63)
	if err != nil || !unhex(op.Op[:], parts[2]) {
		return store.OperationKey{}, false
	}
	op.SourceRID, op.SourceLifecycle = parts[0], store.LeaseGen(lifecycle)
	return op, true
}

// end returns the error of the answer, also if words are left over.
func (a *answer) end() error {
	if a.more() {
		a.fail("end", a.word())
	}
	return a.err
}
