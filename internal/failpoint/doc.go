// Package failpoint names the places in a move at which a test ends, stops or delays the
// process. Without the build tag `failpoints` there is nothing of them.
//
// A name is a step of a move, R01 to R16, and a side of it: R11.before, R11.after. The
// step's own side has no name; what the other processes do about the step has theirs: S is
// the source, T the target, O the owner of the Session, as in R08.S.before.
//
//	R01 admission       R05 manifest      R09 hold relayed   R13 callbacks
//	R02 temporary queue R06 chunks        R10 cutover        R14 open
//	R03 seal            R07 restore       R11 commit         R15 Session's new route
//	R04 capture         R08 relay-ready   R12 merge          R16 follow
//
// Between R03 and R05 the source of a Spot with its members has inventory, the list's chunks in
// the Store, and prepare, the row that names them. abort is what a source tells a target that it
// goes on without.
//
// A specification arms them, here by the variable ZLNODE_FAILPOINTS:
//
//	R11.before=exit;R08.after@3=stop;R06.before=sleep:200ms
//
// Each acts once, at its first hit or the one behind the @: exit is kill -9 by its own hand,
// stop is SIGSTOP, sleep delays the caller, panic panics, drop has the caller leave out what
// it was about to do, where the caller can.
package failpoint
