package wire

// Record is any record of the format.
type Record interface {
	// AppendTo appends the whole record to dst.
	AppendTo(dst []byte) []byte
	// Size is the number of bytes that AppendTo appends.
	Size() int
}

// Decode reads a whole record of any command, with its prefix, as a pointer to
// the command's struct. It allocates the struct; a hot path calls Header and the
// command's own Decode function instead.
func Decode(record []byte) (Record, error) {
	cmd, flags, body, err := Header(record)
	if err != nil {
		return nil, err
	}
	switch cmd {
	case CmdHello:
		return boxed(DecodeHello(body))
	case CmdAdmit:
		return boxed(DecodeAdmit(body))
	case CmdReject:
		return boxed(DecodeReject(body))
	case CmdProbe:
		return boxed(DecodeProbe(body))
	case CmdAck:
		return boxed(DecodeAck(body))
	case CmdCredit:
		return boxed(DecodeCredit(body))
	case CmdGoodbye:
		return boxed(DecodeGoodbye(body))
	case CmdActorSend:
		return boxed(DecodeActorSend(flags, body))
	case CmdActorRequest:
		return boxed(DecodeActorRequest(flags, body))
	case CmdReply:
		return boxed(DecodeReply(body))
	case CmdError:
		return boxed(DecodeErrorReply(flags, body))
	case CmdActorDestroy:
		return boxed(DecodeActorDestroy(body))
	case CmdRouteStale:
		return boxed(DecodeRouteStale(body))
	case CmdInstance:
		return boxed(DecodeInstanceMessage(flags, body))
	case CmdJoinAdmit:
		return boxed(DecodeJoinAdmit(body))
	case CmdMoveProgress:
		return boxed(DecodeMoveProgress(body))
	case CmdMoveAsk:
		return boxed(DecodeMoveAsk(body))
	case CmdRelay:
		return boxed(DecodeRelay(body))
	case CmdCutover:
		return boxed(DecodeCutover(body))
	case CmdMoveAbort:
		return boxed(DecodeMoveAbort(body))
	case CmdActorLeft:
		return boxed(DecodeActorLeft(body))
	case CmdSessionPacket:
		return boxed(DecodeSessionPacket(flags, body))
	case CmdRelayedReply:
		return boxed(DecodeRelayedReply(flags, body))
	case CmdSourceDrained:
		return boxed(DecodeSourceDrained(body))
	case CmdBindingEnded:
		return boxed(DecodeBindingEnded(body))
	case CmdSessionClose:
		return boxed(DecodeSessionClose(body))
	case CmdSessionReconnecting:
		return boxed(DecodeSessionReconnecting(body))
	case CmdNodeMessage:
		return boxed(DecodeNodeMessage(flags, body))
	case CmdOffer:
		return boxed(DecodeOffer(body))
	case CmdPush:
		return boxed(DecodePush(flags, body))
	case CmdPressure:
		return boxed(DecodePressure(body))
	case CmdInterest:
		return boxed(DecodeInterest(flags, body))
	case CmdPublish:
		return boxed(DecodePublish(body))
	case CmdUnbind:
		return boxed(DecodeUnbind(flags, body))
	case CmdBind:
		return boxed(DecodeBind(flags, body))
	case CmdRestore:
		return boxed(DecodeRestore(flags, body))
	case CmdSessionSeal:
		return boxed(DecodeSessionSeal(body))
	case CmdSessionSealed:
		return boxed(DecodeSessionSealed(body))
	case CmdSessionRelocationRoute:
		return boxed(DecodeSessionRelocationRoute(flags, body))
	case CmdUserSpotCreate:
		return boxed(DecodeUserSpotCreate(body))
	case CmdUserSpotClose:
		return boxed(DecodeUserSpotClose(body))
	case CmdActorCreate:
		return boxed(DecodeActorCreate(body))
	case CmdFollowNotice:
		return boxed(DecodeFollowNotice(body))
	case CmdBindingReplaced:
		return boxed(DecodeBindingReplaced(body))
	case CmdStateChunk:
		return boxed(DecodeStateChunk(body))
	default:
		return nil, &FormatError{Command: cmd, Field: "command", Err: ErrCommand}
	}
}

// boxed turns a decoded struct into a Record.
func boxed[T any, P interface {
	*T
	Record
}](v T, err error) (Record, error) {
	if err != nil {
		return nil, err
	}
	return P(&v), nil
}
