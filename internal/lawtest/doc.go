// Package lawtest turns the laws of this project into tests.
//
// A law is a function that takes the repository's files and names each place
// that breaks it. TestTheTreeKeepsEveryLaw holds the tree against all of them,
// and every law has a test that shows it a bad snippet, so that a law that
// stopped seeing anything does not pass for a tree without faults.
//
// The laws:
//
//   - Cores are pure: no goroutine, channel, select, lock, I/O, clock or random
//     source, and no range over a map whose order could reach an output.
//   - The lists of cores here and in .golangci.yml are the same.
//   - Every package with tests checks for leaked goroutines.
//   - Tests do not sleep.
//   - Every Lua script says what it takes and returns, stays short, and is used.
//   - Code files stay short enough to be read, and nothing is left unfinished.
//
// Who may import whom is not here: depguard in .golangci.yml sees to it.
package lawtest
