package sim

// Cell is a cell of the fault matrix of moves: a step, a fault, and the marks or hits of Cover that
// show that it was reached, one of which is enough.
type Cell struct {
	Step, Fault string
	Marks       []string
}

// Matrix lists the cells that have an influence, by the steps of a move: R00 defer, R01 admission
// and reservation, R02 temporary queue, R03 seals, R04 capture, R05 manifest, R06 chunks, R07
// restore, R08 relay-ready, R09 relay, R10 cutover, R11 commit, R12 merge, R13 callbacks, R14
// open, R15 route update, R16 follow.
var Matrix = matrix()

func matrix() (cells []Cell) {
	add := func(step, fault string, marks ...string) { cells = append(cells, Cell{step, fault, marks}) }
	// Each machine is hit by each fault of its process and its link in the states that last.
	for _, of := range []struct {
		step   string
		states []string
	}{
		{"R01", []string{"S R01", "T R01", "S R01 reserve"}},
		{"R02", []string{"T R02"}},
		{"R03", []string{"S R03", "S R03 permit"}},
		{"R04", []string{"S R04"}},
		{"R05", []string{"S R05-R08"}},
		{"R06", []string{"T R06"}},
		{"R07", []string{"T R07"}},
		{"R08", []string{"S R05-R08", "T R08-R10"}},
		{"R09", []string{"S R09-R11"}},
		{"R11", []string{"T R11"}},
		{"R12", []string{"T R12"}},
		{"R13", []string{"T R13"}},
		{"R15", []string{"O R03-R15"}},
	} {
		for _, state := range of.states {
			for _, fault := range []string{"crash", "pause", "cut", "stop"} {
				if state == "O R03-R15" && fault == "cut" || state == "T R11" && fault == "cut" || state == "T R12" && fault == "stop" {
					continue // no link of its own; and what lasts no moment
				}
				add(of.step, fault, state+" × "+fault)
			}
			for _, fault := range linkFaults {
				if state == "S R01 reserve" || state == "S R03 permit" || state == "S R04" || state == "T R06" || state == "T R11" || state == "T R12" || state[0] == 'O' {
					continue // they wait for nothing of a link
				}
				add(of.step, fault, state+" × "+fault)
			}
		}
	}
	for _, of := range []struct{ step, state string }{{"R01", "S R01 reserve"}, {"R01", "T R01"}, {"R11", "T R11"}, {"R03 to R08, back", "S abort"}} {
		for _, fault := range []string{"refused", "lost request", "lost answer", "late request"} {
			add(of.step, fault, of.state+" × "+fault)
		}
	}
	add("R00", "second Join waits or is refused", "not moved: Unavailable", "joined at its node")
	add("R01", "capacity", "not moved: CapacityExceeded")
	add("R01", "rejected", "source ended rejected")
	add("R01", "unknown reservation", "reserve move AlreadyApplied")
	add("R01", "failover", "reserve move EpochChanged")
	add("R01", "the Store had another version", "reserve move VersionConflict", "reserve move Missing")
	add("R01", "deadline", "S R01 × deadline")
	add("R02", "a later attempt", "a later attempt replaced a preparation")
	add("R02", "messages that come before the commit", "came straight to a temporary queue")
	add("R02", "abort with originals", "an original went on to the owner that stayed")
	add("R02", "nobody ends it", "a move that nobody ended was swept")
	add("R02", "overflow", "a queue was full")
	add("R03", "permit", "a move waited for its permit")
	add("R03", "seal refused or late", "S R03 × deadline")
	add("R04", "capture fails", "a capture failed")
	add("R06", "lost link", "chunks went on behind a lost link")
	add("R06", "checksum", "a payload was broken")
	add("R07", "restore fails", "a restore failed")
	add("R05 to R08", "deadline", "S R05-R08 × deadline")
	add("R08", "relay-ready is not accepted", "committed before relay-ready was accepted")
	add("R08", "asked for again behind the commit", "a restore was asked for again when it had ended")
	add("R09", "what was held", "relayed what was held")
	add("R09", "new link", "relayed again over a new link")
	add("R10", "no cutover", "committed without a cutover")
	add("R10", "twice", "the cutover came twice", "a relayed letter came twice", "relayed again over a new link")
	add("R11", "unknown commit", "commit move AlreadyApplied")
	add("R11", "abort came first", "commit move MoveConflict")
	add("R11", "commit came first", "abort move MoveConflict")
	add("R11", "failover", "commit move EpochChanged", "a change was confirmed in a later epoch")
	add("R11", "no end of the validity but giving up", "give up move Applied")
	add("R11", "stuck", "source ended lost")
	add("R11", "the source stops", "a move in doubt was ended by a stop")
	add("R13", "a callback fails", "a callback failed")
	add("R13", "for good", "target ended stuck")
	add("R13", "lease in doubt", "a callback waited until the process might act")
	add("R15", "packets wait", "a packet waited for the end of a move")
	add("R15", "pushes of two owners", "a push was kept")
	add("R15", "no update in time", "a session was closed: nothing was heard of the actor's move in time")
	for _, does := range []string{"leaves", "binds"} {
		add("R15", "a client "+does, "O R03-R15 × client "+does)
	}
	for _, of := range []struct{ step, phase string }{
		{"R01", "before the seal"}, {"R03", "sealed"}, {"R05", "captured"}, {"R09", "relay-ready"}, {"R11", "committed"},
	} {
		for _, what := range []string{"is away", "is back"} {
			add(of.step, "a client "+what, of.phase+" × client "+what)
		}
	}
	add("R01", "the grace ends", "before the seal × client does not come back in time")
	add("R03 to R11", "the grace ends", "sealed × client does not come back in time", "captured × client does not come back in time",
		"relay-ready × client does not come back in time", "committed × client does not come back in time")
	add("R15", "late update", "a route update found no session", "a route update found another binding")
	add("R16", "follow", "followed")
	add("R16", "its end", "a follow ended")
	add("R16", "and back", "an actor came back")
	add("R16", "an old way", "sent again by a fresh way")
	add("R16", "replies by the hop", "a reply went back by the hop")
	add("all", "freed by hand", "a stuck actor was freed")
	add("all", "freed on its way", "an actor on its way was freed")
	add("all", "failover", "failover that lost changes")
	return cells
}

// linkFaults are what becomes of a link without both ends' knowledge, as machines meet it that have
// to do with the process at its other end: one end is over; what comes one way is lost; there is
// another link.
var linkFaults = []string{"half-open", "one way", "new link"}

// CreationMatrix lists the cells of links in the fault matrix of creations: the caller's machine
// that waits for its target, and the target's that somebody waits for behind a link.
var CreationMatrix = creationMatrix()

func creationMatrix() (cells []Cell) {
	for _, step := range []string{"source run", "target enter", "target read", "target stage", "target finish"} {
		for _, fault := range append([]string{"cut"}, linkFaults...) {
			cells = append(cells, Cell{step, fault, []string{step + " × " + fault, step + resting + " × " + fault}})
		}
	}
	return cells
}

// Unreached returns the cells of which the Cover has nothing.
func Unreached(of []Cell, c *Cover) (cells []Cell) {
	for _, cell := range of {
		if len(c.Missing(cell.Marks)) == len(cell.Marks) {
			cells = append(cells, cell)
		}
	}
	return cells
}
