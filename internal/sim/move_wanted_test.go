package sim

var moveWanted = map[string][]string{}

var moveWantedOfMany []string
