package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"time"
)

// A token is, in base64: the second in which it expires, 8 bytes; HMAC-SHA256 over these and
// the name, 32 bytes; the name. It is a bearer's token: who has it is who it names, so it
// belongs on an encrypted connection.
const (
	expirySize = 8
	nameMax    = 64
)

var (
	errMalformed = errors.New("the token is malformed")
	errForged    = errors.New("the token's signature is wrong")
	errExpired   = errors.New("the token has expired")
)

// sign makes a token for the name, valid until then.
func sign(key []byte, name string, until time.Time) string {
	expiry := binary.BigEndian.AppendUint64(nil, uint64(until.Unix()))
	b := append(append(expiry, mac(key, expiry, name)...), name...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// verify returns the name of a token, if it was signed with key and is still valid. What the
// token says is looked at only when its signature has been.
func verify(key []byte, token string, now time.Time) (name string, err error) {
	if len(token) > base64.RawURLEncoding.EncodedLen(expirySize+sha256.Size+nameMax) {
		return "", errMalformed
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) <= expirySize+sha256.Size {
		return "", errMalformed
	}
	expiry, sum, name := b[:expirySize], b[expirySize:expirySize+sha256.Size], string(b[expirySize+sha256.Size:])
	if !hmac.Equal(sum, mac(key, expiry, name)) { // in a time that tells nothing about the sum
		return "", errForged
	}
	if now.Unix() >= int64(binary.BigEndian.Uint64(expiry)) {
		return "", errExpired
	}
	return name, nil
}

func mac(key, expiry []byte, name string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(expiry) // of a fixed size, so that no other expiry and name have the same bytes
	h.Write([]byte(name))
	return h.Sum(nil)
}
