package sim

// What the runs of each kind must have reached, so that they prove something.
var wanted = map[string][]string{
	"calm": {},
}

// wantedOfAll is what all of them must have reached together.
var wantedOfAll = []string{}
