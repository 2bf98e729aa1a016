package sim

// drainMutants are defects of what a node moves by its own will that the oracle must see.
var drainMutants = []mutant{
	{"a member is left open at the source", "internal/sim/move_unit.go", []string{
		"	for n, j := range members {\n", "	for n, j := range members[min(1, len(members)):] {\n",
		"internal/sim/move_whole.go", "", "	for _, m := range o.members {\n		a := m.a\n		all = append", "	for _, a := range r.here() {\n		all = append",
	}, []string{"I1", "I7", "AG-06", "I5", "I16"}},
	{"a member is not given back when its room stays", "internal/sim/move_whole.go", []string{
		"				m.a.seal(m.mover.handBack)\n", "				m.a.seal(m.mover.handBack)\n				break\n",
	}, []string{"I11", "I12", "I3"}},
	{"members are sealed while one has a turn", "internal/sim/move_whole.go", []string{
		"	if r.wide {\n		r.whenCalm(seal)", "	if false {\n		r.whenCalm(seal)",
	}, []string{"I14", "I1", "I11"}},
	{"relay-ready is said when not all members are restored", "internal/sim/move_whole_target.go", []string{
		"		if failing >= 0 {\n", "		if failing >= len(i.members) {\n",
		"			m.a.state = slices.Clone(p.state)\n", "			if k != failing {\n				m.a.state = slices.Clone(p.state)\n			}\n",
	}, []string{"I14"}},
	{"the owner generations of members do not grow with their room's", "internal/sim/move_whole_target.go", []string{
		"		c.register(m.ref)\n", "		m.ref.owner--\n		c.register(m.ref)\n",
	}, []string{"I5", "I1"}},
	{"an abort behind an inventory whose answer was lost is not sent again", "relay/source_end.go", []string{
		"	case s.move.Wide && c.Reason == store.VersionConflict", "	case false && c.Reason == store.VersionConflict",
	}, []string{"I11", "I12", "I16"}},
	{"a member is open before the others of its room", "internal/sim/move_whole_target.go", []string{
		"	for _, m := range i.members {\n		m.mergeActor(one)\n	}\n", "	for _, m := range i.members {\n		m.mergeActor(func() {\n			m.open()\n			one()\n		})\n	}\n",
		"			m.open()\n		}\n		h.w.acts", "			_ = m\n		}\n		h.w.acts",
	}, []string{"I13"}},
	{"an actor that its node moves may join meanwhile", "internal/sim/move_join.go", []string{
		"	case a.join != nil && a.join.phase == joinClaim, a.room", "	case a.room",
		"	case a.join != nil:\n		return\n", "	case a.join != nil && a.join.phase != joinClaim:\n		return\n",
	}, []string{"JN-13"}},
	{"callbacks run of an actor that its node moves", "internal/sim/move_source.go", []string{
		"		Quiet: o.unit != nil && o.r == nil,", "		Quiet: false,",
	}, []string{"MB-08", "panic"}},
	{"an actor is bound anew while its binding is being sealed", "internal/sim/move_client.go", []string{
		"	case a.sealing:\n", "	case false:\n",
	}, []string{"MB-04", "I9"}},
	{"a relocation goes on with the next batch when a unit has failed", "internal/host/operation.go", []string{
		"	for o.failure == nil && o.batchOver() {\n", "	for o.flying == 0 && len(o.lines) == 0 {\n",
	}, []string{"I16"}},
	{"a node that was blocked stays relocating", "internal/host/operation.go", []string{
		"		o.conclude(store.Serving, *o.failure)\n", "		o.conclude(store.Relocating, *o.failure)\n",
	}, []string{"I16", "I12"}},
	{"those who never follow their room are counted for ever", "internal/sim/move_host.go", []string{
		"		r.recount()\n", "		_ = r\n",
	}, []string{"I12", "I11"}},
	{"members of a room whose new owner died follow it for ever", "internal/sim/move_room.go", []string{
		"	return r.tenure == departed && r.stuck == \"\" && r.h.newest[r.to.RID] > r.to.Lifecycle\n", "	return false\n",
	}, []string{"I11", "I12", "I16"}},
	{"a room that is lost on its way keeps its members", "internal/sim/move_unit.go", []string{
		"r.tenure == departed && r.stuck == \"\" //", "r.tenure == departed //",
	}, []string{"I12", "I11"}},
	{"a node writes no rows again while a member's room is another's", "internal/sim/move_epoch.go", []string{
		"(r.gone || r.orphaned() || r.stuck != \"\" && !r.wide)", "r.gone",
	}, []string{"I12"}},
}
