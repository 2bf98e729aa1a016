package wire

import (
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"
)

// samples has at least one record of every command.
func samples() map[Command][]Record {
	ref := Ref{ID: []byte("player-42"), ObjGen: 7, Mesh: []byte("eu"), RID: []byte("node-a"), Lifecycle: 3, OwnerGen: 9}
	op := [16]byte{0: 1, 15: 2}
	name := BindingName{ID: []byte("player-42"), ObjGen: 7, Session: 1, BindingGen: 2}
	all := map[Command][]Record{
		CmdHello: {
			&Hello{MinVersion: 1, MaxVersion: 3, Mesh: []byte("eu"), RID: []byte("node-a"), Lifecycle: 5, Role: RoleServer, Nonce: [32]byte{1}, ExpectRID: []byte("node-b")},
			&Hello{MinVersion: 1, MaxVersion: 1, Mesh: []byte("eu"), RID: []byte("node-a"), Lifecycle: 5, Nonce: [32]byte{1}},
		},
		CmdAdmit:   {&Admit{MAC: [32]byte{9}, Window: 8 << 20, Version: 1}},
		CmdReject:  {&Reject{Reason: RejectBadMesh}, &Reject{Reason: RejectBadCertificate, Text: []byte("later")}},
		CmdProbe:   {&Probe{ID: 1}},
		CmdAck:     {&Ack{ID: 1 << 63}},
		CmdCredit:  {&Credit{Bytes: 1 << 20}},
		CmdGoodbye: {&Goodbye{Reason: GoodbyeShutdown, Text: []byte("bye")}},
		CmdActorSend: {
			&ActorMessage{ID: []byte("player-42"), Op: 1, Name: []byte("move")},
			&ActorMessage{ID: []byte("player-42"), ObjGen: 2, OwnerGen: 3, Op: 4, DeadlineMS: 5, Hops: MaxHops, Name: []byte("move"), Codec: 1, Metadata: []byte{0}, Payload: []byte("{}")},
			&ActorMessage{ID: []byte("room-7"), Spot: true, Op: 1, Name: []byte("move")},
		},
		CmdActorRequest: {
			&ActorMessage{ID: []byte("player-42"), Op: 4, Correlation: 11, DeadlineMS: 5000, Name: []byte("state"), Codec: 1, Payload: []byte("{}")},
			&ActorMessage{ID: []byte("room-7"), Spot: true, Op: 4, Correlation: 11, DeadlineMS: 5000, Name: []byte("state")},
		},
		CmdReply:        {&Reply{Correlation: 11, Codec: 1, Payload: []byte("{}")}, &Reply{Correlation: 12}},
		CmdError:        {&ErrorReply{Correlation: 11, Kind: MaxErrorKind, Text: []byte("no")}, &ErrorReply{Correlation: 12, Stale: true, Application: true}},
		CmdRouteStale:   {&RouteStale{ID: []byte("player-42"), OwnerGen: 3}},
		CmdActorDestroy: {&ActorDestroy{Correlation: 13, Ref: ref, Op: op}},
		CmdInstance: {
			&InstanceMessage{ID: []byte("match-7"), Type: []byte("match"), Op: 1, Name: []byte("join")},
			&InstanceMessage{ID: []byte("match-7"), Op: 2, OwnerGen: 3, Correlation: 4, DeadlineMS: 5, Name: []byte("join")},
			&InstanceMessage{ID: []byte("match-7"), Type: []byte("match"), Op: 2, Correlation: 4, Asks: true, DeadlineMS: 5000, Name: []byte("state"), Codec: 1, Metadata: []byte{0}, Payload: []byte("{}")},
		},
		CmdSessionPacket: {
			&SessionPacket{ID: []byte("player-42"), ObjGen: 7, Session: 1, BindingGen: 2, Name: []byte("move"), Payload: []byte{1}},
			&SessionPacket{ID: []byte("player-42"), ObjGen: 7, Session: 1, BindingGen: 2, Correlation: 14, DeadlineMS: 1, Name: []byte("state")},
		},
		CmdPush: {
			&Push{Session: 1, BindingGen: 2, ID: []byte("player-42"), ObjGen: 7, Name: []byte("tick"), Codec: 3, Payload: []byte{1, 2}},
			&Push{Session: 1, BindingGen: 2, ID: []byte("player-42"), ObjGen: 7, Class: 1, Key: []byte("pos"), Name: []byte("tick"), Codec: 3, Payload: []byte{1, 2}},
			&Push{Session: 1, BindingGen: 2, ID: []byte("player-42"), ObjGen: 7, Class: 2, Name: []byte("tick")},
		},
		CmdNodeMessage: {
			&NodeMessage{Op: 1, Name: []byte("reload")},
			&NodeMessage{Channel: []byte("match"), Op: 2, DeadlineMS: 5, Name: []byte("enter"), Codec: 1, Metadata: []byte{0}, Payload: []byte("{}")},
			&NodeMessage{Channel: []byte("match"), Op: 3, Correlation: 4, DeadlineMS: 5000, Name: []byte("find")},
		},
		CmdOffer: {&Offer{}, &Offer{Channels: AppendOffered(AppendOffered(nil, []byte("chat"), 100), []byte("match"), 0)}},
		CmdInterest: {
			&Interest{Topics: AppendTopic(AppendTopic(nil, "world"), "chat/eu")},
			&Interest{Withdraw: true, Topics: AppendTopic(nil, "world")},
		},
		CmdPublish: {
			&Publish{Topic: []byte("world"), Name: []byte("storm")},
			&Publish{Topic: []byte("world"), Name: []byte("storm"), Codec: 1, Metadata: []byte{0}, Payload: []byte("{}")},
		},
		CmdSessionReconnecting: {&SessionReconnecting{name}},
		CmdPressure:            {&Pressure{BindingName: name, Pending: 1 << 20}},
		CmdUnbind: {
			&Unbind{BindingName: name, Reason: UnbindClosed},
			&Unbind{Correlation: 18, BindingName: name, Reason: UnbindDisconnected},
		},
		CmdBind: {
			&Bind{Correlation: 15, Ref: ref, Session: 1, BindingGen: 2},
			&Bind{Again: true, Correlation: 15, Ref: ref, Session: 1, BindingGen: 2},
		},
		CmdBindingReplaced: {&BindingReplaced{name}},
		CmdBindingEnded:    {&BindingEnded{name}},
		CmdSessionClose:    {&SessionClose{BindingName: name, Text: []byte("banned")}},
		CmdUserSpotCreate:  {&UserSpotCreate{Correlation: 16, Op: op, SourceLifecycle: 3, ID: []byte("room-7"), Type: []byte("room"), ObjGen: 7, StoreVersion: 8, TargetLifecycle: 4, DeadlineMS: 5000}},
		CmdUserSpotClose:   {&UserSpotClose{Correlation: 17, Ref: ref, StoreVersion: 9, Op: op, DeadlineMS: 5000}},
		CmdActorCreate:     {&ActorCreate{Correlation: 16, Op: op, SourceLifecycle: 3, ID: []byte("player-42"), Type: []byte("player"), ObjGen: 7, StoreVersion: 8, TargetLifecycle: 4, DeadlineMS: 5000}},
	}
	maps.Copy(all, moveSamples())
	return all
}

func genBinding(t *rapid.T) BindingName {
	return BindingName{ID: genID.Draw(t, "id"), ObjGen: genSome.Draw(t, "objGen"), Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen")}
}

// Generators of field values that peers accept.
var (
	genID    = rapid.Custom(func(t *rapid.T) []byte { return []byte(rapid.StringOfN(rapid.Rune(), 1, 63, MaxID).Draw(t, "id")) })
	genRID   = rapid.Custom(func(t *rapid.T) []byte { return []byte(rapid.StringMatching(`[A-Za-z0-9._-]{1,64}`).Draw(t, "rid")) })
	genBytes = rapid.SliceOfN(rapid.Byte(), 0, 300)
	genGen   = rapid.Uint64Range(0, MaxGeneration)
	genSome  = rapid.Uint64Range(1, MaxGeneration)
	genNum   = rapid.Uint64Min(1)
	genMS    = rapid.Uint32Min(1)
	genCodec = rapid.Uint8Range(0, MaxCodec)
	genText  = rapid.Custom(func(t *rapid.T) []byte {
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			return []byte(strings.Repeat("é", 600)) // longer than MaxText
		}
		return genBytes.Draw(t, "text")
	})
	genRef = rapid.Custom(func(t *rapid.T) Ref {
		return Ref{ID: genID.Draw(t, "id"), ObjGen: genSome.Draw(t, "objGen"), Mesh: genID.Draw(t, "mesh"), RID: genRID.Draw(t, "rid"), Lifecycle: genSome.Draw(t, "lifecycle"), OwnerGen: genSome.Draw(t, "ownerGen")}
	})
	genOp = rapid.Custom(func(t *rapid.T) (v [16]byte) {
		copy(v[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "op"))
		v[0] |= 1
		return v
	})
	genHash = rapid.Custom(func(t *rapid.T) (v [32]byte) {
		copy(v[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		return v
	})
)

// genRecord draws a valid record of any command.
var genRecord = rapid.Custom(func(t *rapid.T) Record {
	switch rapid.IntRange(0, 45).Draw(t, "command") {
	case 0:
		h := &Hello{MinVersion: rapid.Uint16Min(1).Draw(t, "min"), Mesh: genID.Draw(t, "mesh"), RID: genRID.Draw(t, "rid"), Lifecycle: genSome.Draw(t, "lifecycle"), Role: Role(rapid.Uint8Range(0, 4).Draw(t, "role")), Nonce: genHash.Draw(t, "nonce")}
		h.MaxVersion = rapid.Uint16Min(h.MinVersion).Draw(t, "max")
		if rapid.Bool().Draw(t, "expects") {
			h.ExpectRID = genRID.Draw(t, "expect")
		}
		return h
	case 1:
		return &Admit{MAC: genHash.Draw(t, "mac"), Window: rapid.Uint64Range(MinWindow, MaxWindow).Draw(t, "window"), Version: rapid.Uint16Min(1).Draw(t, "version")}
	case 2:
		return &Reject{Reason: RejectReason(rapid.Uint8Range(1, uint8(RejectBadCertificate)).Draw(t, "reason")), Text: genText.Draw(t, "text")}
	case 3:
		return &Probe{ID: genNum.Draw(t, "id")}
	case 4:
		return &Ack{ID: genNum.Draw(t, "id")}
	case 5:
		return &Credit{Bytes: rapid.Uint64Range(1, MaxWindow).Draw(t, "bytes")}
	case 6:
		return &Goodbye{Reason: GoodbyeReason(rapid.Uint8Range(1, uint8(GoodbyeRemoved)).Draw(t, "reason")), Text: genText.Draw(t, "text")}
	case 7:
		return &ActorMessage{ID: genID.Draw(t, "id"), Spot: rapid.Bool().Draw(t, "spot"), ObjGen: genGen.Draw(t, "objGen"), OwnerGen: genGen.Draw(t, "ownerGen"), Op: genNum.Draw(t, "op"), DeadlineMS: rapid.Uint32().Draw(t, "ms"), Hops: rapid.Uint8Range(0, MaxHops).Draw(t, "hops"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
	case 8:
		return &ActorMessage{ID: genID.Draw(t, "id"), Spot: rapid.Bool().Draw(t, "spot"), ObjGen: genGen.Draw(t, "objGen"), OwnerGen: genGen.Draw(t, "ownerGen"), Op: genNum.Draw(t, "op"), Correlation: genNum.Draw(t, "correlation"), DeadlineMS: genMS.Draw(t, "ms"), Hops: rapid.Uint8Range(0, MaxHops).Draw(t, "hops"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
	case 9:
		return &Reply{Correlation: genNum.Draw(t, "correlation"), Codec: genCodec.Draw(t, "codec"), Payload: genBytes.Draw(t, "payload")}
	case 10:
		return &ErrorReply{Correlation: genNum.Draw(t, "correlation"), Kind: rapid.Uint8Range(0, MaxErrorKind).Draw(t, "kind"), Text: genText.Draw(t, "text"), Stale: rapid.Bool().Draw(t, "stale"), Application: rapid.Bool().Draw(t, "application")}
	case 11:
		return &ActorDestroy{Correlation: genNum.Draw(t, "correlation"), Ref: genRef.Draw(t, "ref"), Op: genOp.Draw(t, "op")}
	case 12:
		p := &SessionPacket{ID: genID.Draw(t, "id"), ObjGen: genSome.Draw(t, "objGen"), Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen"), DeadlineMS: genMS.Draw(t, "ms"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
		if rapid.Bool().Draw(t, "request") {
			p.Correlation = genNum.Draw(t, "correlation")
		}
		return p
	case 13:
		p := &Push{Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen"), ID: genID.Draw(t, "id"), ObjGen: genSome.Draw(t, "objGen"), Class: rapid.Uint8Range(0, MaxPushClass).Draw(t, "class"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
		if p.Class == PushNewestPerKey {
			p.Key = rapid.SliceOfN(rapid.Byte(), 1, MaxPushKey).Draw(t, "key")
		}
		return p
	case 14:
		u := &Unbind{BindingName: genBinding(t), Reason: UnbindReason(rapid.Uint8Range(1, uint8(unbindReasonMax)).Draw(t, "reason"))}
		if rapid.Bool().Draw(t, "request") {
			u.Correlation = genNum.Draw(t, "correlation")
		}
		return u
	case 15:
		return &Bind{Again: rapid.Bool().Draw(t, "again"), Correlation: genNum.Draw(t, "correlation"), Ref: genRef.Draw(t, "ref"), Session: genNum.Draw(t, "session"), BindingGen: genSome.Draw(t, "bindingGen")}
	case 16:
		m := &InstanceMessage{ID: genID.Draw(t, "id"), OwnerGen: genGen.Draw(t, "ownerGen"), Op: genNum.Draw(t, "op"), DeadlineMS: genMS.Draw(t, "ms"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
		if rapid.Bool().Draw(t, "creates") {
			m.Type = genID.Draw(t, "type")
		}
		if rapid.Bool().Draw(t, "correlated") {
			m.Correlation, m.Asks = genNum.Draw(t, "correlation"), rapid.Bool().Draw(t, "asks")
		}
		return m
	case 17:
		return &RouteStale{ID: genID.Draw(t, "id"), OwnerGen: genGen.Draw(t, "ownerGen")}
	case 18:
		return &UserSpotClose{Correlation: genNum.Draw(t, "correlation"), Ref: genRef.Draw(t, "ref"), StoreVersion: genSome.Draw(t, "version"), Op: genOp.Draw(t, "op"), DeadlineMS: genMS.Draw(t, "ms")}
	case 19:
		return &UserSpotCreate{Correlation: genNum.Draw(t, "correlation"), Op: genOp.Draw(t, "op"), SourceLifecycle: genSome.Draw(t, "source"), ID: genID.Draw(t, "id"), Type: genID.Draw(t, "type"), ObjGen: genSome.Draw(t, "objGen"), StoreVersion: genSome.Draw(t, "version"), TargetLifecycle: genSome.Draw(t, "target"), DeadlineMS: genMS.Draw(t, "ms")}
	case 20:
		return &ActorCreate{Correlation: genNum.Draw(t, "correlation"), Op: genOp.Draw(t, "op"), SourceLifecycle: genSome.Draw(t, "source"), ID: genID.Draw(t, "id"), Type: genID.Draw(t, "type"), ObjGen: genSome.Draw(t, "objGen"), StoreVersion: genSome.Draw(t, "version"), TargetLifecycle: genSome.Draw(t, "target"), DeadlineMS: genMS.Draw(t, "ms")}
	case 21:
		return &BindingReplaced{genBinding(t)}
	case 22:
		return &BindingEnded{genBinding(t)}
	case 23:
		return &SessionClose{BindingName: genBinding(t), Text: genText.Draw(t, "text")}
	case 24:
		return &Pressure{BindingName: genBinding(t), Pending: rapid.Uint64Range(0, MaxWindow).Draw(t, "pending")}
	case 25:
		return &SessionReconnecting{genBinding(t)}
	case 26:
		i := &Interest{Withdraw: rapid.Bool().Draw(t, "withdraw")}
		for range rapid.IntRange(1, 5).Draw(t, "topics") {
			i.Topics = AppendTopic(i.Topics, string(genID.Draw(t, "topic")))
		}
		return i
	case 27:
		return &Publish{Topic: genID.Draw(t, "topic"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
	case 28:
		m := &NodeMessage{Op: genNum.Draw(t, "op"), DeadlineMS: genMS.Draw(t, "ms"), Name: genID.Draw(t, "name"), Codec: genCodec.Draw(t, "codec"), Metadata: genBytes.Draw(t, "metadata"), Payload: genBytes.Draw(t, "payload")}
		if rapid.Bool().Draw(t, "to channel") {
			m.Channel = genID.Draw(t, "channel")
		}
		if rapid.Bool().Draw(t, "request") {
			m.Correlation = genNum.Draw(t, "correlation")
		}
		return m
	case 29:
		o := &Offer{Channels: []byte{}}
		names := rapid.SliceOfNDistinct(rapid.StringOfN(rapid.Rune(), 1, 20, 60), 0, 20, rapid.ID[string]).Draw(t, "names")
		slices.Sort(names)
		for _, name := range names {
			o.Channels = AppendOffered(o.Channels, []byte(name), rapid.Uint16Range(0, MaxWeight).Draw(t, "weight"))
		}
		return o
	default:
		return genMove.Draw(t, "move")
	}
})
