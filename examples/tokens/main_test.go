package main

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // a dependency starts goroutines when it is loaded
}

func Example() {
	main()
	// Output:
	// Welcome, Ada! You are Ada.
	// Rejected: log in again
	// Rejected: log in again
}

func TestATokenIsWorthWhatWasSigned(t *testing.T) {
	key, now := []byte("key"), time.Unix(1_000_000, 0)
	good := sign(key, "Ada", now.Add(time.Second))
	if name, err := verify(key, good, now); name != "Ada" || err != nil {
		t.Errorf("%q %v", name, err)
	}
	for what, r := range map[string]struct {
		token string
		want  error
	}{
		"expired":     {sign(key, "Ada", now), errExpired},
		"another key": {sign([]byte("kez"), "Ada", now.Add(time.Second)), errForged},
		"no name":     {sign(key, "", now.Add(time.Second)), errMalformed},
		"no token":    {"", errMalformed},
		"no base64":   {good + "!", errMalformed},
		"too long":    {sign(key, strings.Repeat("x", nameMax+1), now.Add(time.Second)), errMalformed},
	} {
		if name, err := verify(key, r.token, now); name != "" || !errors.Is(err, r.want) {
			t.Errorf("%s: %q %v", what, name, err)
		}
	}
	b, err := base64.RawURLEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	for i := range b { // one bit of any byte, the expiry and the name among them
		forged := append([]byte(nil), b...)
		forged[i] ^= 1
		if name, err := verify(key, base64.RawURLEncoding.EncodeToString(forged), now); name != "" || !errors.Is(err, errForged) {
			t.Errorf("byte %d changed: %q %v", i, name, err)
		}
	}
}
