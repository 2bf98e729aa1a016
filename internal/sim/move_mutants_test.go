package sim

// moveMutants are defects of moves that the oracle must see.
var moveMutants = []mutant{
	{"the source takes its actor back without asking the Store", "relay/source_end.go", []string{
		"	s.waits = backoff{}\n	s.sendAbort()\n}", "	s.goOn()\n}",
	}, []string{"I1", "I8", "I12", "I6"}},
	{"copies that travelled are answered when the move is given up", "internal/sim/move_incoming.go", []string{
		"	q.saved, q.relayed, q.rest = nil, nil, nil\n	a.cur = refusal{f}",
		"	for _, it := range slices.Concat(q.saved, q.relayed) {\n		a.refuse(it, f)\n	}\n	q.saved, q.relayed, q.rest = nil, nil, nil\n	a.cur = refusal{f}",
	}, []string{"I6", "I3"}},
	{"the target opens before it knows that its commit is applied", "relay/target_commit.go", []string{
		"	case e.Err == nil && t.owns(c):\n		t.confirm(&c.Record)\n	case e.Err == nil && (c.Reason == store.AlreadyApplied",
		"	case errors.Is(e.Err, store.ErrUnknown):\n		t.row.OwnerGen++\n		t.confirm(&t.row)\n	case e.Err == nil && t.owns(c):\n		t.confirm(&c.Record)\n	case e.Err == nil && (c.Reason == store.AlreadyApplied",
	}, []string{"I5", "I1", "I8"}},
	{"a Session's owner does not look of which move and owner an update is", "session/route.go", []string{
		"	case ev.Relocation != r.seal:\n		r.say(RouteIgnored, r.otherMove())\n	case r.phase != routeSealed:\n		r.say(RouteIgnored, RouteFinished)",
		"	case false:\n		r.say(RouteIgnored, r.otherMove())\n	case false:\n		r.say(RouteIgnored, RouteFinished)",
		"	case ev.OwnerGen <= r.ownerGen:", "	case false:",
	}, []string{"I9", "I2", "I12"}},
	{"what came straight to the target is merged before what was relayed", "internal/sim/move_incoming.go", []string{
		"slices.Concat(q.saved, q.relayed, q.rest)", "slices.Concat(q.rest, q.saved, q.relayed)",
	}, []string{"I2"}},
	{"a reservation whose answer was lost is made again as another operation", "internal/sim/move_source.go", []string{
		"return h.w.store.ReserveMove(background, e.Reserve) }", "e.Reserve.Op = h.newOp(); return h.w.store.ReserveMove(background, e.Reserve) }",
	}, []string{"I12", "I8"}},
	{"a reservation whose answer was lost is forgotten", "relay/source.go", []string{
		"if s.lost = s.lost || errors.Is(e.Err, store.ErrUnknown); s.lost {", "if false {",
	}, []string{"I12", "I8"}},
	{"a turn begins without a look at the lease", "internal/sim/move_actor.go", []string{
		"	case !h.mayAct():\n		f = errNotOwner\n	case h.clock()", "	case h.clock()",
	}, []string{"I1"}},
	{"the target gives up without the Store", "relay/target_commit.go", []string{
		"	t.do(targetGivingUp, TargetEffect{Do: TargetGiveUp,", "	t.drop(errGivenUp)\n	return\n	t.do(targetGivingUp, TargetEffect{Do: TargetGiveUp,",
	}, []string{"I5", "I8", "I12"}},
	{"what was relayed already is taken again behind a new link", "relay/numbering.go", []string{
		"	case seq <= i.last:\n		return Duplicate\n", "	case seq <= i.last:\n		return Fresh\n",
	}, []string{"I3"}},
	{"originals go when they are relayed, not when they are acknowledged", "internal/sim/move_mover.go", []string{
		"	v.send(v.last, c)\n}", "	v.send(v.last, c)\n	v.out.Acked(v.last, func(m handed) { v.a.done(m.l) })\n}",
	}, []string{"I3", "I10"}},
	{"what was relayed and not acknowledged is called untaken", "internal/sim/move_mover.go", []string{
		"v.a.refuse(item{l: m.l}, errHanded) })\n	v.a.cur", "v.a.refuse(item{l: m.l}, errMoved) })\n	v.a.cur",
	}, []string{"I6", "I3"}},
	{"what was held is not relayed if the commit came without the boundary", "internal/sim/move_mover.go", []string{
		"	if v.phase < moverRelaying { // it was", "	if false { // it was",
	}, []string{"I6", "I3", "I11", "I12"}},
	{"a restore that is asked for again when the actor is here begins anew", "internal/sim/move_prepare.go", []string{
		"came := h.arrivingFrom(l, fence.Relocation); came != nil", "came := (*arriving)(nil); came != nil",
	}, []string{"I5", "I3"}},
	{"an actor whose row was freed while it moved stays in the table", "internal/sim/move_out.go", []string{
		"if o.mover == nil || !e.Found || e.Row.ObjectGen != a.ref.gen {", "if o.mover == nil {",
	}, []string{"I12", "I11"}},
	{"the route of a Session opens before the owner before has ended", "session/route.go", []string{
		"r.ownerGen, r.moved, r.leaving, r.left = ev.OwnerGen, true, !r.drained, r.seal", "r.ownerGen, r.moved, r.leaving, r.left = ev.OwnerGen, true, false, r.seal",
	}, []string{"I9"}},
	{"the source takes a row that reads unchanged for the end of its move", "relay/source_end.go", []string{
		"	case s.spent: // a commit may", "	case s.spent && s.failure == nil, now.Reached(s.validUntil):\n		s.lose(errkind.Unavailable, goneText)\n	case s.spent: // a commit may",
	}, []string{"I6", "I5", "I12"}},
	{"the source takes what the row says in a new epoch for what became of its move", "relay/source_end.go", []string{
		"	case c.Reason == store.EpochChanged, c.Epoch != s.reserved.Epoch, at == wherePast:", "	case c.Reason == store.EpochChanged:",
	}, []string{"I1", "I3", "I12", "I5", "I8"}},
	{"a Session whose actor was bound to another one is not told", "internal/sim/move_session.go", []string{
		"		h.tellReplaced(before, a.ref, b.key)\n", "",
	}, []string{"I9", "I12"}},
	{"any end of a Session ends the binding that is there", "internal/sim/move_session.go", []string{
		"	if a.binding.key == key {\n		a.binding = binding{}\n		a.h.w.moves.book.disconnected(a, key)", "	if a.binding.key.gen != 0 {\n		a.binding = binding{}\n		a.h.w.moves.book.disconnected(a, key)",
	}, []string{"MB-04", "I9"}},
	{"a Session that binds again takes its actor back", "internal/sim/move_client.go", []string{
		"	case again && a.binding.key != key:\n", "	case false:\n",
	}, []string{"MB-04", "I9"}},
	{"what a client has missed is sent in another order", "internal/sim/move_resume.go", []string{
		"	for _, e := range pushes {\n", "	slices.Reverse(pushes)\n	for _, e := range pushes {\n",
	}, []string{"I16", "I9"}},
	{"a client that comes back gets again what it has", "internal/sim/move_resume.go", []string{
		"		if e.number > last {\n", "		if true {\n",
	}, []string{"I16"}},
	{"what comes during a resumption goes out at once", "internal/sim/move_keep.go", []string{
		"	if k.holding {\n", "	if false {\n",
	}, []string{"I16"}},
	{"what came during a resumption goes before what the client has missed", "internal/sim/move_resume.go", []string{
		"	for _, e := range pushes {\n", "	for _, e := range held {\n		k.send(e)\n	}\n	held = nil\n	for _, e := range pushes {\n",
	}, []string{"I16"}},
	{"nothing is kept for a client that is away", "internal/sim/move_keep.go", []string{
		"	k.pushes = append(k.pushes, p)\n", "	if !k.cut {\n		k.pushes = append(k.pushes, p)\n	}\n",
	}, []string{"I16"}},
	{"a Session is resumed of which pushes are lost", "internal/sim/move_resume.go", []string{
		"return last <= k.last && last >= k.lost }", "return last <= k.last }",
	}, []string{"I16"}},
	{"a resumption does not wait for an actor that moves", "internal/sim/move_resume.go", []string{
		"		case now.moves():\n", "		case false:\n",
	}, []string{"I16", "I9"}},
	{"a Session is resumed twice", "internal/sim/move_resume.go", []string{
		"if k.holding || k.taken || k.finished || k.why != \"\" ||", "if k.holding ||",
	}, []string{"I16", "I9", "MB-04"}},
	{"the grace has no end", "internal/sim/move_keep.go", []string{
		"	if !k.reserved || !now.Reached(k.until) {\n", "	if !k.reserved || k.why == \"\" {\n",
	}, []string{"I11"}},
	{"a lost connection is told to the Actors' Spots at once", "internal/sim/move_keep.go", []string{
		"	s.mark(\"is away\")\n", "	s.mark(\"is away\")\n	for _, b := range s.bounds {\n		if !b.ended {\n			b.unbind(h, s.n)\n		}\n	}\n",
	}, []string{"MB-04"}},
	{"the end of a binding is told, and it stays", "internal/sim/move_session.go", []string{
		"		a.binding = binding{}\n		a.h.w.moves.book.disconnected(a, key)", "		a.h.w.moves.book.disconnected(a, key)",
	}, []string{"MB-04", "I9"}},
	{"nobody tells an Actor's Spot of a client that was lost during a move", "internal/sim/move_target.go", []string{
		"		if i.lost.gen != 0 {\n", "		if false {\n",
	}, []string{"MB-04"}},
	{"packets of the binding before are executed behind a resumption", "internal/sim/move_actor.go", []string{
		"	case l.session != nil && *l.session != a.binding.key:\n", "	case l.session != nil && a.binding.key.gen == 0:\n",
	}, []string{"FO-15", "I2"}},
	{"a Session's end ends its first binding alone", "internal/sim/move_session.go", []string{
		"		if !b.ended {\n			b.unbind(h, s.n)\n		}\n", "		if !b.ended {\n			b.unbind(h, s.n)\n			break\n		}\n",
	}, []string{"I9", "I12"}},
}
