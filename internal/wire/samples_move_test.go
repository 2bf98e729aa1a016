package wire

import "pgregory.net/rapid"

// moveSamples are the samples of the records of moves.
func moveSamples() map[Command][]Record {
	ref := Ref{ID: []byte("player-42"), ObjGen: 7, Mesh: []byte("eu"), RID: []byte("node-a"), Lifecycle: 3, OwnerGen: 9}
	op, relocation := [16]byte{0: 1, 15: 2}, [16]byte{0: 3, 15: 4}
	carried := carriedSamples()
	return map[Command][]Record{
		CmdJoinAdmit: {
			&JoinAdmit{Correlation: 18, Relocation: relocation, Attempt: 1, Op: op, Ref: ref, StoreVersion: 8, SpotID: []byte("room-7"), DeadlineMS: 5000, Codec: 1, Request: []byte("{}")},
			&JoinAdmit{Correlation: 18, Relocation: relocation, Attempt: 1, Op: op, Ref: ref, StoreVersion: 8, SpotID: []byte("room-7"), DeadlineMS: 1},
			&JoinAdmit{Correlation: 18, Relocation: relocation, Attempt: 1, Unit: UnitInstance, Op: op, Ref: ref, StoreVersion: 8, DeadlineMS: 1},
		},
		CmdMoveProgress: {
			&MoveProgress{Relocation: relocation, Attempt: 1, State: ProgressAssembling, Chunks: 3},
			&MoveProgress{Relocation: relocation, Attempt: 1, State: ProgressReady, Chunks: 5, Seq: 6},
			&MoveProgress{Relocation: relocation, Attempt: 1, State: ProgressCommitted, Chunks: 5, Seq: 6, OwnerGen: 10},
			&MoveProgress{Relocation: relocation, Attempt: 1, State: ProgressGone},
		},
		CmdMoveAsk: {&MoveAsk{Relocation: relocation, Attempt: 1}},
		CmdRelay: {
			&Relay{Relocation: relocation, Attempt: 1, Seq: 1, Message: carried[0]},
			&Relay{Relocation: relocation, Attempt: 1, Seq: 2, Message: carried[1]},
			&Relay{Relocation: relocation, Attempt: 1, Seq: 3, Message: carried[2]},
			&Relay{Relocation: relocation, Attempt: 1, Seq: 4, Message: carried[3]},
		},
		CmdCutover:   {&Cutover{Relocation: relocation, Attempt: 1, Seq: 4, CRC: 5}, &Cutover{Relocation: relocation, Attempt: 1}},
		CmdMoveAbort: {&MoveAbort{Relocation: relocation, Attempt: 1}},
		CmdActorLeft: {&ActorLeft{Relocation: relocation, Attempt: 1, Ref: ref, SpotID: []byte("lobby")}},
		CmdRelayedReply: {
			&RelayedReply{To: Process{RID: []byte("node-c"), Lifecycle: 5}, Via: Process{RID: []byte("node-a"), Lifecycle: 3}, Correlation: 11, Hops: 1, Success: true, Codec: 1, Payload: []byte("{}")},
			&RelayedReply{To: Process{RID: []byte("node-c"), Lifecycle: 5}, Correlation: 11, Kind: MaxErrorKind, Text: []byte("no"), Stale: true, Application: true},
		},
		CmdSourceDrained: {&SourceDrained{Relocation: relocation, Session: 1, BindingGen: 2, ID: []byte("player-42"), ObjGen: 7}},
		CmdRestore: {
			&Restore{Correlation: 19, Relocation: relocation, Attempt: 1, Op: op, Ref: ref, StoreVersion: 9, Epoch: 1, SpotID: []byte("lobby"), TargetSpotID: []byte("room-7"), InUserSpot: true, SourceOwnerID: []byte("0a1b"), SourceLease: 3, DeadlineMS: 4000, Manifest: Manifest{Total: 70_000, Raw: 90_000, ChunkBytes: 1 << 15, Chunks: 3, CRC: 6, Compression: MaxCompression}},
			&Restore{Correlation: 19, Relocation: relocation, Attempt: 2, Op: op, Ref: ref, StoreVersion: 9, Epoch: 1, SpotID: []byte("room-7"), TargetSpotID: []byte("entry"), SourceOwnerID: []byte("0a1b"), SourceLease: 3, DeadlineMS: 4000, Manifest: Manifest{Total: 1, Raw: 1, ChunkBytes: MinChunk, Chunks: 1}},
			&Restore{Correlation: 19, Relocation: relocation, Attempt: 1, Unit: UnitWide, Op: op, Ref: ref, StoreVersion: 9, Epoch: 1, SourceOwnerID: []byte("0a1b"), SourceLease: 3, DeadlineMS: 4000, Root: [32]byte{5, 31: 6}, Manifest: Manifest{Total: 1, Raw: 1, ChunkBytes: MinChunk, Chunks: 1}},
		},
		CmdSessionSeal:   {&SessionSeal{Correlation: 20, Relocation: relocation, Session: 1, BindingGen: 2, ID: []byte("player-42"), ObjGen: 7, OwnerGen: 9}},
		CmdSessionSealed: {&SessionSealed{Correlation: 20}},
		CmdSessionRelocationRoute: {
			&SessionRelocationRoute{Commit: true, Relocation: relocation, Ref: ref, Owner: Process{RID: []byte("gate-1"), Lifecycle: 6}, Session: 1, BindingGen: 2},
			&SessionRelocationRoute{Relocation: relocation, Ref: ref, Owner: Process{RID: []byte("gate-1"), Lifecycle: 6}, Session: 1, BindingGen: 2},
		},
		CmdFollowNotice: {&FollowNotice{Ref: ref, StoreVersion: 10}},
		CmdStateChunk:   {&StateChunk{Relocation: relocation, Attempt: 1, Index: 2, CRC: 5, Payload: []byte("state")}},
	}
}

// carriedSamples has one message of each kind.
func carriedSamples() []Carried {
	origin, via := Process{RID: []byte("node-c"), Lifecycle: 5}, Process{RID: []byte("node-a"), Lifecycle: 3}
	return []Carried{
		{Kind: CarriedSend, Origin: origin, Name: []byte("move")},
		{Kind: CarriedRequest, Spot: true, ObjGen: 7, OwnerGen: 9, Op: 1, Origin: origin, Via: via, Correlation: 11, DeadlineMS: 5000, Hops: MaxHops, Name: []byte("state"), Codec: 1, Metadata: []byte{0}, Payload: []byte("{}")},
		{Kind: CarriedSessionSend, ObjGen: 7, Origin: origin, Via: via, Session: 1, BindingGen: 2, Name: []byte("move"), Payload: []byte{1}},
		{Kind: CarriedSessionRequest, ObjGen: 7, Origin: origin, Correlation: 12, Session: 1, BindingGen: 2, DeadlineMS: 1, Name: []byte("state")},
		{Kind: CarriedOffer, Spot: true, Origin: origin, Via: via, Correlation: 13, DeadlineMS: 2, Name: []byte("move")},
		{Kind: CarriedIntentSend, Spot: true, Origin: origin, Name: []byte("move")},
		{Kind: CarriedIntentRequest, Spot: true, Origin: origin, Correlation: 14, DeadlineMS: 3, Name: []byte("state")},
		{Kind: CarriedTopic, Spot: true, Origin: origin, Topic: []byte("news"), Number: 3, Name: []byte("move"), Payload: []byte{1}},
		{Kind: CarriedNews, Spot: true, ObjGen: 7, Origin: via, Number: 9, Name: []byte("player-42"), Codec: MaxClientNews},
	}
}

// moveStateSample has every part; its queue is that of carriedSamples.
func moveStateSample() MoveState {
	m := MoveState{SpotID: []byte("lobby"), Timers: []byte{1, 0}, HasBinding: true, Binding: MovedBinding{Owner: Process{RID: []byte("gate-1"), Lifecycle: 6}, Session: 1, BindingGen: 2}, HasState: true, State: []byte("state")}
	m.Topics, m.Began = AppendSubscription(AppendSubscription(nil, "news", 3), "weather", 4), 5
	for _, c := range carriedSamples() {
		m.Saved++
		m.Queue = c.AppendTo(m.Queue)
	}
	return m
}

var (
	genAttempt = rapid.Uint32Min(1)
	genProcess = rapid.Custom(func(t *rapid.T) Process {
		return Process{RID: genRID.Draw(t, "rid"), Lifecycle: genSome.Draw(t, "lifecycle")}
	})
	genVia      = rapid.OneOf(genProcess, rapid.Just(Process{}))
	genHops     = rapid.Uint8Range(0, MaxHops)
	genChunk    = rapid.Uint32Range(MinChunk, MaxChunk)
	genManifest = rapid.Custom(func(t *rapid.T) Manifest {
		return Manifest{Total: genNum.Draw(t, "total"), Raw: genNum.Draw(t, "raw"), ChunkBytes: genChunk.Draw(t, "chunkBytes"), Chunks: genMS.Draw(t, "chunks"), CRC: rapid.Uint32().Draw(t, "crc"), Compression: rapid.Uint8Range(0, MaxCompression).Draw(t, "compression")}
	})
	genCarried = rapid.Custom(func(t *rapid.T) Carried {
		c := Carried{Kind: CarriedKind(rapid.Uint8Range(1, uint8(CarriedNews)).Draw(t, "kind")), ObjGen: genGen.Draw(t, "objGen"), OwnerGen: genGen.Draw(t, "ownerGen"), Op: rapid.Uint64().Draw(t, "op"), Origin: genProcess.Draw(t, "origin"), Via: genVia.Draw(t, "via"), DeadlineMS: genMS.Draw(t, "ms"), Hops: genHops.Draw(t, "hops"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
		if c.Kind.Asks() {
			c.Correlation = genNum.Draw(t, "correlation")
		}
		if c.Kind.OfSession() {
			c.Session, c.BindingGen = genNum.Draw(t, "session"), genSome.Draw(t, "bindingGen")
		} else {
			c.Spot = c.Kind.ToSpot() || rapid.Bool().Draw(t, "spot")
		}
		if c.Kind == CarriedTopic {
			c.Topic = genID.Draw(t, "topic")
		}
		if c.Kind == CarriedTopic || c.Kind == CarriedNews {
			c.Number = genNum.Draw(t, "number")
		}
		if c.Kind == CarriedNews {
			c.Codec = rapid.Uint8Range(0, MaxClientNews).Draw(t, "news")
		}
		return c
	})
	genMoveState = rapid.Custom(func(t *rapid.T) MoveState {
		m := MoveState{SpotID: genID.Draw(t, "spot"), Timers: genBytes.Draw(t, "timers"), HasBinding: rapid.Bool().Draw(t, "bound"), HasState: rapid.Bool().Draw(t, "preserved")}
		for _, topic := range rapid.SliceOfN(genID, 0, 3).Draw(t, "topics") {
			m.Began++
			m.Topics = AppendSubscription(m.Topics, string(topic), m.Began)
		}
		m.ClientGone = !m.HasBinding && rapid.Bool().Draw(t, "gone")
		if m.HasBinding {
			m.Binding = MovedBinding{Owner: genProcess.Draw(t, "owner"), Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen"), ClientAway: rapid.Bool().Draw(t, "away")}
		}
		if m.HasState {
			m.State = genBytes.Draw(t, "state")
		}
		for _, c := range rapid.SliceOfN(genCarried, 0, 4).Draw(t, "queue") {
			m.Saved++
			m.Queue = c.AppendTo(m.Queue)
		}
		return m
	})
)

// genMove draws a valid record of a move.
var genMove = rapid.Custom(func(t *rapid.T) Record {
	relocation, attempt := genOp.Draw(t, "relocation"), genAttempt.Draw(t, "attempt")
	switch rapid.IntRange(0, 15).Draw(t, "command") {
	case 0:
		j := &JoinAdmit{Correlation: genNum.Draw(t, "correlation"), Relocation: relocation, Attempt: attempt, Unit: rapid.SampledFrom([]Unit{UnitJoin, UnitShell, UnitWide, UnitInstance}).Draw(t, "unit"), Op: genOp.Draw(t, "op"), Ref: genRef.Draw(t, "ref"), StoreVersion: genSome.Draw(t, "version"), DeadlineMS: genMS.Draw(t, "ms"), Codec: genCodec.Draw(t, "codec"), Request: genBytes.Draw(t, "request")}
		if !j.Unit.IsSpot() {
			j.SpotID = genID.Draw(t, "spot")
		}
		return j
	case 1:
		p := &MoveProgress{Relocation: relocation, Attempt: attempt, State: ProgressState(rapid.Uint8Range(1, uint8(ProgressGone)).Draw(t, "state")), Chunks: rapid.Uint32().Draw(t, "chunks"), Seq: rapid.Uint64().Draw(t, "seq")}
		if p.State == ProgressCommitted {
			p.OwnerGen = genSome.Draw(t, "ownerGen")
		}
		return p
	case 2:
		return &MoveAsk{Relocation: relocation, Attempt: attempt}
	case 3, 4:
		return &Relay{Relocation: relocation, Attempt: attempt, Seq: genNum.Draw(t, "seq"), Message: genCarried.Draw(t, "message")}
	case 5:
		return &Cutover{Relocation: relocation, Attempt: attempt, Seq: rapid.Uint64().Draw(t, "seq"), CRC: rapid.Uint32().Draw(t, "crc")}
	case 6:
		return &MoveAbort{Relocation: relocation, Attempt: attempt}
	case 7:
		return &ActorLeft{Relocation: relocation, Attempt: attempt, Ref: genRef.Draw(t, "ref"), SpotID: genID.Draw(t, "spot")}
	case 8:
		r := &RelayedReply{To: genProcess.Draw(t, "to"), Via: genVia.Draw(t, "via"), Correlation: genNum.Draw(t, "correlation"), Hops: genHops.Draw(t, "hops"), Success: rapid.Bool().Draw(t, "success")}
		if r.Success {
			r.Codec, r.Payload = genCodec.Draw(t, "codec"), genBytes.Draw(t, "payload")
		} else {
			r.Kind, r.Text = rapid.Uint8Range(0, MaxErrorKind).Draw(t, "kind"), genText.Draw(t, "text")
			r.Stale, r.Application = rapid.Bool().Draw(t, "stale"), rapid.Bool().Draw(t, "application")
		}
		return r
	case 9:
		return &SourceDrained{Relocation: relocation, Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen"), ID: genID.Draw(t, "id"), ObjGen: genSome.Draw(t, "objGen")}
	case 10:
		r := &Restore{Correlation: genNum.Draw(t, "correlation"), Relocation: relocation, Attempt: attempt, Unit: Unit(rapid.Uint8Range(0, uint8(UnitInstance)).Draw(t, "unit")), Op: genOp.Draw(t, "op"), Ref: genRef.Draw(t, "ref"), StoreVersion: genSome.Draw(t, "version"), Epoch: genSome.Draw(t, "epoch"), InUserSpot: rapid.Bool().Draw(t, "user"), SourceOwnerID: genRID.Draw(t, "owner"), SourceLease: genSome.Draw(t, "lease"), DeadlineMS: genMS.Draw(t, "ms"), Manifest: genManifest.Draw(t, "manifest")}
		if !r.Unit.IsSpot() {
			r.SpotID, r.TargetSpotID = genID.Draw(t, "spot"), genID.Draw(t, "target")
		}
		if r.Unit == UnitWide {
			copy(r.Root[:], "root")
		}
		return r
	case 11:
		return &SessionSeal{Correlation: genNum.Draw(t, "correlation"), Relocation: relocation, Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen"), ID: genID.Draw(t, "id"), ObjGen: genSome.Draw(t, "objGen"), OwnerGen: genSome.Draw(t, "ownerGen")}
	case 12:
		return &SessionSealed{Correlation: genNum.Draw(t, "correlation")}
	case 13:
		return &SessionRelocationRoute{Commit: rapid.Bool().Draw(t, "commit"), Relocation: relocation, Ref: genRef.Draw(t, "ref"), Owner: genProcess.Draw(t, "owner"), Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen")}
	case 14:
		return &FollowNotice{Ref: genRef.Draw(t, "ref"), StoreVersion: genSome.Draw(t, "version")}
	default:
		return &StateChunk{Relocation: relocation, Attempt: attempt, Index: rapid.Uint32().Draw(t, "index"), CRC: rapid.Uint32().Draw(t, "crc"), Payload: rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "payload")}
	}
})
