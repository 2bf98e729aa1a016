//go:build !failpoints

package failpoint

import "errors"

// Enabled says whether the places are compiled in.
const Enabled = false

// Hit passes a place.
func Hit(string) (drop bool) { return false }

// Arm fails: there are no places to arm.
func Arm(string) error {
	return errors.New("failpoint: this program is built without the tag failpoints")
}
