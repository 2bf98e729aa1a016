//go:build invariants

package invariant

// Enabled is a constant so that checks behind it cost nothing in release builds.
const Enabled = true
