package node

import (
	"errors"
	"testing"

	"github.com/zlnode/zlnode/internal/errkind"
)

// The error of a nested request says whom it concerned.
func TestANestedFailureNamesItsObject(t *testing.T) {
	inner := fail(errkind.NotFound, opRequest, "nobody", "there is no object with that id")
	got := asError(inner).of(opRequest, "ada")
	if want := `zlnode: request "ada": NotFound: request "nobody": there is no object with that id`; got.Error() != want {
		t.Errorf("%s, want %s", got, want)
	}
	own := Errorf(errkind.Rejected, "the room is full").of(opRequest, "room")
	if got := asError(own); got.Text != "the room is full" || !errors.Is(got, errkind.Rejected) {
		t.Errorf("an application's own text became %q", got.Text)
	}
}
