// Package bench measures whole nodes side by side with a bare gnet echo of the
// same bytes, in one process and one run, so that what counts is the ratio:
//
//	go test ./bench -run '^$' -bench . -benchtime 2s -count 5
//
// Client and server share the cores; absolute figures mean little. A move's chunks are
// measured beside a plain stream in the same way.
package bench
