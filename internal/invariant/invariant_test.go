package invariant

import "testing"

func TestCheckPanicsOnlyWhenBroken(t *testing.T) {
	Check(true, "never shown")
	defer func() {
		if got := recover(); got != "invariant broken: owner 7" {
			t.Errorf("recovered %v", got)
		}
	}()
	Check(false, "owner %d", 7)
}
