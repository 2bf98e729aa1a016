package redislua

import (
	"testing"
)

// audit fails the test if anything in the namespace does not follow from its rows.
func audit(t testing.TB, s *Store) {
	t.Helper()
	if client, err := s.begin(); client == nil || err != nil {
		return // a test closed it
	}
	s.calls.Done()
	lines, err := s.Audit(within(t))
	if err != nil {
		t.Errorf("audit: %v", err)
	}
	for _, line := range lines {
		t.Errorf("audit: %s", line)
	}
}
