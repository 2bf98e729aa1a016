//go:build newer

package proctest

// program is the build that this one is; see newApp.
const program = 2
