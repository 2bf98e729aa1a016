// Package sim runs the protocol's pure cores in a world that it makes up: processes,
// links, a Store, clocks and an application, all on one goroutine and in virtual time.
// So a second holds many thousand histories of races, lost answers and deaths, and each
// of them can be run again.
//
// All chance comes from a Tape of bytes. A history is a Kind and a tape, so it can be
// repeated, changed and made smaller. A zero on the tape always means the harmless
// choice: no fault, the first in order, no delay. So a smaller tape is a simpler story.
//
// It covers who may act (leases, epochs), how objects come into being and end, messages and
// their order and acknowledgement, Joins, moves, and the Sessions that are bound to Actors
// which move. It does not run internal/node, whose rules its shells follow by hand, and has no
// Instance Spots.
//
// A World has, for each node, a process at a time (or two, when one was taken for dead
// and only slept). A process runs internal/lease and the machines of internal/creation
// in a shell as internal/node has it: the registry of creations that run, the table of
// objects, the scan for reservations that nobody told it of. What happens has three
// phases: faults while callers race to create and destroy; healing, after which all must
// come to rest in bounded time and each id must answer; and the destruction of all, after
// which nothing may be left. The oracle watches throughout, see ledger.
//
// Processes meet by links, whose ends do not know the same at the same time: see link.go. Who
// dials, which of two links stays and when a peer is silent say the cores of internal/link; what
// an end that is over still takes, sends and ends is the rule of internal/node and engine, by hand.
//
// A world of moves (the files move_*) runs the machines of relay and the routes of session
// instead, in a shell that is internal/node's by hand: the same rules of what is held where,
// what is acknowledged when, and when originals go. Actors move while writers and clients talk
// to them, and the Store may lose what it has answered; see book for its oracle. A Script plays
// one such story with faults at given steps.
//
// In a world of drains nodes are relocated, too: internal/host decides, and move_drain does what
// it wants. What a node moves are Actors, without a Join or a callback, and rooms: a PerActor one
// alone, a SpotWide one with its members as one aggregate (move_unit, move_whole*). A SpotWide room
// has no turns of its own here, nor do its members share them, but for the seal.
//
// Clients lose their connections there and come back by a token, at once, in time or too late. What
// internal/node keeps of their Sessions and how those are resumed has no core: the files move_keep
// and move_resume repeat it by hand, on routes of session that are the real ones. move_stream is
// its oracle.
package sim
