// Package redislua is the Location Store on Redis: store.Store as go-redis and
// the scripts of scripts/lua. docs/STORE.md describes keys and records.
//
// It runs on one server, behind Sentinel, and on a Cluster, with Redis 7 or newer.
// All keys of a namespace share one hash tag, so one shard holds a namespace.
//
// # What an error means
//
// A call that fails says which of two things is so. store.ErrUnavailable: nothing
// was changed, because the command never went out or the server refused it unrun.
// store.ErrUnknown: it may have run; the caller reads again, or repeats the call
// with the same operation id, and decides. No command is ever repeated behind the
// caller's back, except one that a server answered it had not run (NOSCRIPT, and
// in a Cluster MOVED and ASK, or a script that found an epoch which is not noted).
//
// Which of the two is known exactly, not judged by the error: each command carries
// a nonce as an argument that go-redis must ask for when it encodes the command,
// and that question is the moment from which the command counts as sent. The
// script returns the nonce, so that an answer meant for another call is never
// taken for one's own.
package redislua
