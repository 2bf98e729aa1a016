package wire

import (
	"encoding/binary"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/zlnode/zlnode/internal/invariant"
)

// begin makes room for a record of size bytes at the end of dst and writes its
// header.
func begin(dst []byte, size int, cmd Command, flags uint8) []byte {
	checkLen("record", size, MaxRecord)
	dst = slices.Grow(dst, size)
	dst = appendU32(dst, uint32(size-prefixSize))
	return append(dst, byte(cmd), flags)
}

// end checks what begin started: builds with the tag `invariants` decode every
// record that they encode.
func end(dst []byte, size int) []byte {
	if invariant.Enabled {
		_, err := Decode(dst[len(dst)-size:])
		invariant.Check(err == nil, "encoded a record that no peer accepts: %v", err)
	}
	return dst
}

func appendU16(dst []byte, v uint16) []byte { return binary.BigEndian.AppendUint16(dst, v) }
func appendU32(dst []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(dst, v) }
func appendU64(dst []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(dst, v) }

func appendS8(dst, s []byte) []byte {
	checkLen("id or name", len(s), MaxID)
	return append(append(dst, byte(len(s))), s...)
}

func appendS16(dst, s []byte) []byte {
	return append(appendU16(dst, uint16(len(s))), s...)
}

func appendMetadata(dst, s []byte) []byte {
	checkLen("metadata", len(s), MaxMetadata)
	return appendS16(dst, s)
}

func appendPayload(dst, s []byte, limit int) []byte {
	checkLen("payload", len(s), limit)
	return append(dst, s...)
}

// clip cuts text to MaxText, at the start of a character if it is UTF-8.
func clip(text []byte) []byte {
	if len(text) <= MaxText {
		return text
	}
	n := MaxText
	for n > MaxText-utf8.UTFMax && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// checkLen is a plain function, not invariant.Check, so that the hot path does
// not box its arguments.
func checkLen(what string, n, limit int) {
	if n > limit {
		panic("wire: " + what + " of " + strconv.Itoa(n) + " bytes, limit " + strconv.Itoa(limit) +
			": refuse it where it enters the node")
	}
}
