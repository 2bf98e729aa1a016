package sim

import "slices"

// always is what runs of every kind must have reached, so that they prove something.
var always = []string{
	"call Created", "call Existing", "call Rejected", "call Failed", "call TimedOut", "call destroyed",
	"committed Created", "committed Rejected", "committed Failed",
	"waited for another's creation", "competed again after another's creation", "failure AlreadyExists", "failure TypeMismatch", "nudge",
}

// wanted is what the runs of each kind must have reached.
var wanted = map[string][]string{
	"calm": slices.Concat(always, []string{
		"call OutOfHold", "followed a creation that runs", "recalled true", "asked by another than the coordinator",
	}),
	"store": slices.Concat(always, []string{
		"refused", "lost request", "lost answer", "late request", "outage", "jump of the Store's clock",
		"reserve AlreadyApplied", "finish Created AlreadyApplied", "finish Failed AlreadyApplied", "recalled true",
		"found a reservation that nobody told of", "asked again how a removal ended",
		"source reserve × lost answer", "source reserve × late request", "source read × lost answer",
		"target read × lost answer", "target finish × lost answer", "target finish × late request", "target finish × refused",
	}),
	"network": slices.Concat(always, []string{
		"cut", "stall", "partition", "half-open", "one way", "a link was replaced", "a silent peer was given up",
		"a record of a link that is over was dropped", "source run × cut", "source run × half-open", "source run × one way", "source run × new link", "no link to the target", "recalled true", "recalled false",
		"found a reservation that nobody told of", "asked by another than the coordinator", "failure Unavailable",
	}),
	"process": slices.Concat(always, []string{
		"crash", "pause", "replace", "stop", "lease superseded", "freed", "unavailable with its dead owner",
		"applied cancel", "cancelled after its factory had run", "target stage × crash", "target stage × pause", "source run × crash",
	}),
	"swarm": {
		"call Created", "call Existing", "call Rejected", "call Failed", "call TimedOut", "call destroyed",
		"waited for another's creation", "competed again after another's creation", "applied cancel", "freed",
		"found a reservation that nobody told of", "finish Created AlreadyApplied", "reserve AlreadyApplied",
	},
}

// wantedOfMany is what a large batch must have reached: among others a death in every
// state of the machines that lasts.
var wantedOfMany = []string{
	"freed rows noticed", "freed object dropped", "cancel Missing", "reserve CapacityExceeded",
	"destroy refused, object kept", "destroy waited for the object", "waited for a place", "got no place in time",
	"left to its coordinator here", "finish Rejected AlreadyApplied",
	"source choose × crash", "source reserve × crash", "source reserve, rests × crash", "source read × crash", "source read, rests × crash",
	"source run × crash", "source cancel × crash", "source cancel × lost answer", "source recall × lost answer",
	"target enter × crash", "target read × crash", "target stage × crash", "target publish × crash", "target finish × crash",
	"target finish, rests × crash", "target confirm × crash",
	"target enter × pause", "target read × pause", "target stage × pause", "target publish × pause", "target finish × pause",
	"target confirm × pause", "target finish × lease in doubt", "target recall × lost answer",
	"source reserve × deadline", "source read × deadline", "source run × deadline", "target read × deadline", "target stage × deadline",
}
