package node

import "sync/atomic"

// counters count what is not told to anybody else.
type counters struct {
	dropped         atomic.Uint64 // one-way messages that were not executed
	failedSends     atomic.Uint64
	failedRequests  atomic.Uint64
	failedCallbacks atomic.Uint64
	pushesRefused   atomic.Uint64
	lateReplies     atomic.Uint64
	slowSessions    atomic.Uint64
	sessionFaults   atomic.Uint64
	sessionsRefused atomic.Uint64
	pushesDropped   atomic.Uint64
	pushesReplaced  atomic.Uint64
	sessionsCutOff  atomic.Uint64
	updatesIgnored  atomic.Uint64
	sessionsTaken   atomic.Uint64
	sessionsResumed atomic.Uint64
	reservesRefused atomic.Uint64
	linksRefused    atomic.Uint64
	publishesSent   atomic.Uint64
	publishesMissed atomic.Uint64
	copiesMissed    atomic.Uint64
	reselected      atomic.Uint64
	panics          atomic.Uint64

	movedOut, movedIn atomic.Uint64
	moves             [unitKinds]moveTimes // by wire.Unit
}

// Stats is a node's state at a glance. Counters count from its start.
type Stats struct {
	Actors, Spots, Sessions, Peers, ManualPeers, Routes int

	Dropped          uint64 // one-way messages that were not executed: no actor, no room in its queue, no lease
	FailedSends      uint64 // one-way messages whose handler failed
	FailedRequests   uint64 // requests by whose end something is wrong with their handler or with who asked: InternalFailure, a payload or a reply that is not what it must be, no such handler; logged
	FailedCallbacks  uint64 // timers and callbacks of Spots that failed; logged
	PushesRefused    uint64 // pushes of actors whose binding was over
	LateReplies      uint64 // replies that came after their request had ended
	SlowSessions     uint64 // sessions closed because the client did not read
	SessionFaults    uint64 // sessions closed because their client broke the protocol or a limit
	SessionsRefused  uint64 // sessions closed because OnConnect or Authenticate failed, or nothing was authenticated in time
	PushesDropped    uint64 // pushes of DropOldest and NewestPerKey that went because too much waited for their client
	PushesReplaced   uint64 // pushes of NewestPerKey that a newer one replaced before they went out
	ClientsBehind    int    // sessions for whose client messages wait now, or did a moment ago
	OutboxBytes      int64  // what waits for them, but for the first 64 KiB of each
	SessionsCutOff   uint64 // sessions closed because an actor of theirs moved and nothing was heard of it in time, or too much at once; logged
	SessionsTaken    uint64 // sessions that are or were closed because an actor of theirs was bound to another one
	SessionsReserved int    // sessions whose client is away and may come back
	SessionsResumed  uint64 // sessions that have gone on where another one was
	ReservesRefused  uint64 // sessions that were not reserved because the node had too many of them, or kept too much
	KeptBytes        int64  // of pushes that are kept for clients that may come back
	UpdatesIgnored   uint64 // updates about bound actors which came too late or for nothing; logged
	Topics           int    // topics with subscribers at this node
	TopicsElsewhere  int    // topics with subscribers at nodes that are linked
	PublishesSent    uint64 // messages to topics that the link to a node with subscribers took, counted for each such node
	PublishesMissed  uint64 // those that such a link had no room for
	CopiesMissed     uint64 // copies that subscribers at this node did not get: no room in the queue, no handler, no lease; logged
	LinksRefused     uint64 // connections on the link port that did not become links
	Reselected       uint64 // messages to channels that another server has taken than the one that was chosen first, or after a wait
	ServiceMessages  int    // to channels and to the node itself that wait here or have a handler now
	Panics           uint64 // in application code and outside it

	Moves MoveStats
}

// MoveStats is about the objects that have changed their node. What a move takes is told in
// the two parts that each one node's clock can tell.
type MoveStats struct {
	Out uint64 // objects that another node owns since
	In  uint64 // objects that have been opened here

	// SourceStop is how long an object was sealed here, until its hold was relayed and the
	// target told so; of all.
	SourceStop Spread
	// TargetResume is how long it took to open an object here once the Store said that it is
	// this node's: its first messages put in order, its Spot and itself told; of all.
	TargetResume Spread
	// Kinds are the same, and how long others went on to send here, by what moved: 0 is an Actor
	// by its Join, the others are units of a relocation, by UnitKind.
	Kinds [unitKinds]MoveTimes
}

// Stats returns the present state.
func (n *Node) Stats() Stats {
	spots := int(n.spots.Load())
	actorsPassing, spotsPassing := n.passing()
	reserved, kept := n.keeps.look()
	topics, elsewhere := 0, 0
	for _, m := range n.meshes {
		topics, elsewhere = topics+m.topics.here.Len(), elsewhere+m.topics.elsewhere.Len()
	}
	return Stats{
		Actors: max(n.actors.Len()-spots-actorsPassing, 0), Spots: max(spots-spotsPassing, 0), Sessions: n.sessions.Len(), Peers: n.linkCount(), ManualPeers: n.manualPeers(), Routes: n.routes.known.Len(),
		Dropped: n.counters.dropped.Load(), FailedSends: n.counters.failedSends.Load(), FailedRequests: n.counters.failedRequests.Load(),
		FailedCallbacks: n.counters.failedCallbacks.Load(),
		PushesRefused:   n.counters.pushesRefused.Load(), LateReplies: n.counters.lateReplies.Load(),
		SlowSessions: n.counters.slowSessions.Load(), SessionFaults: n.counters.sessionFaults.Load(), SessionsRefused: n.counters.sessionsRefused.Load(),
		SessionsCutOff: n.counters.sessionsCutOff.Load(), UpdatesIgnored: n.counters.updatesIgnored.Load(), SessionsTaken: n.counters.sessionsTaken.Load(),
		PushesDropped: n.counters.pushesDropped.Load(), PushesReplaced: n.counters.pushesReplaced.Load(),
		ClientsBehind: n.behind.len(), OutboxBytes: n.waiting.Load(),
		SessionsReserved: reserved, KeptBytes: kept, SessionsResumed: n.counters.sessionsResumed.Load(), ReservesRefused: n.counters.reservesRefused.Load(),
		Topics: topics, TopicsElsewhere: elsewhere, PublishesSent: n.counters.publishesSent.Load(),
		PublishesMissed: n.counters.publishesMissed.Load(), CopiesMissed: n.counters.copiesMissed.Load(),
		Reselected: n.counters.reselected.Load(), ServiceMessages: int(n.services.busy()),
		LinksRefused: n.counters.linksRefused.Load(), Panics: n.counters.panics.Load(),
		Moves: n.moveStats(),
	}
}

func (n *Node) moveStats() MoveStats {
	m := MoveStats{Out: n.counters.movedOut.Load(), In: n.counters.movedIn.Load()}
	var stops, resumes []*spread
	for kind := range n.counters.moves {
		times := &n.counters.moves[kind]
		m.Kinds[kind] = times.look()
		stops, resumes = append(stops, &times.sourceStop), append(resumes, &times.targetResume)
	}
	m.SourceStop, m.TargetResume = lookAll(stops), lookAll(resumes)
	return m
}
