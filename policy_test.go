package zlnode_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/zlnode/zlnode"
)

// What becomes of an operation when something fails follows from what it is and from the
// moment: there is no option by which one node, channel, type, call or error would have it
// otherwise. What that is, TestADeadOwnersActorIsUnavailable and the other tests of FO-01 to
// FO-16 show, of which none sets any.
// req: FO-19, FO-04
func TestThereIsNoFailoverPolicyToChoose(t *testing.T) {
	seen := map[reflect.Type]bool{}
	var look func(path string, of reflect.Type)
	suspect := func(path, name string) {
		for _, word := range []string{"failover", "retry", "retries", "retriable", "resend", "takeover", "fallback"} {
			if strings.Contains(strings.ToLower(name), word) {
				t.Errorf("%s.%s is a choice of what a failure does, or a hint to repeat", path, name)
			}
		}
	}
	look = func(path string, of reflect.Type) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		if seen[of] || !strings.HasPrefix(of.PkgPath(), "github.com/zlnode/zlnode") {
			return
		}
		seen[of] = true
		for both := range 2 {
			if both == 1 {
				of = reflect.PointerTo(of)
			}
			for i := range of.NumMethod() {
				suspect(path, of.Method(i).Name)
			}
		}
		if of = of.Elem(); of.Kind() != reflect.Struct {
			return
		}
		for i := range of.NumField() {
			if f := of.Field(i); f.IsExported() {
				suspect(path, f.Name)
				look(path+"."+f.Name, f.Type)
			}
		}
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[zlnode.Config](), reflect.TypeFor[zlnode.HandlerOptions](), reflect.TypeFor[zlnode.CreateActor](),
		reflect.TypeFor[zlnode.CreateSpot](), reflect.TypeFor[zlnode.PushOptions](), reflect.TypeFor[zlnode.TimerOptions](),
		reflect.TypeFor[zlnode.Addr](), reflect.TypeFor[zlnode.Topic](), reflect.TypeFor[zlnode.Node](), reflect.TypeFor[zlnode.App](),
		reflect.TypeFor[zlnode.Error](), reflect.TypeFor[zlnode.ActorCall](), reflect.TypeFor[zlnode.SpotCall](),
		reflect.TypeFor[zlnode.SessionCall](), reflect.TypeFor[zlnode.NodeCall](),
	} {
		look(of.Name(), of)
	}
	if len(seen) < 20 {
		t.Errorf("only %d types were looked at", len(seen))
	}
}
