package wire

import "strconv"

// Command is the number of a record type. Numbers never change their meaning.
type Command uint8

// The commands. 45 is reserved for session control; a peer that sends it today is refused.
// 16–23, 25–33 and 35 are of this project: the contract has no number for them.
const (
	CmdHello                  Command = 1
	CmdAdmit                  Command = 2
	CmdReject                 Command = 3
	CmdProbe                  Command = 5
	CmdAck                    Command = 6
	CmdCredit                 Command = 7
	CmdGoodbye                Command = 8
	CmdActorSend              Command = 10
	CmdActorRequest           Command = 11
	CmdReply                  Command = 12
	CmdError                  Command = 13
	CmdActorDestroy           Command = 14
	CmdRouteStale             Command = 15
	CmdInstance               Command = 16
	CmdJoinAdmit              Command = 17
	CmdMoveProgress           Command = 18
	CmdMoveAsk                Command = 19
	CmdRelay                  Command = 20
	CmdCutover                Command = 21
	CmdMoveAbort              Command = 22
	CmdActorLeft              Command = 23
	CmdSessionPacket          Command = 24
	CmdRelayedReply           Command = 25
	CmdSourceDrained          Command = 26
	CmdBindingEnded           Command = 27
	CmdSessionClose           Command = 28
	CmdSessionReconnecting    Command = 29
	CmdNodeMessage            Command = 30
	CmdOffer                  Command = 31
	CmdInterest               Command = 32
	CmdPublish                Command = 33
	CmdPressure               Command = 35
	CmdPush                   Command = 36
	CmdUnbind                 Command = 37
	CmdBind                   Command = 38
	CmdRestore                Command = 40
	CmdSessionSeal            Command = 42
	CmdSessionSealed          Command = 43
	CmdSessionRelocationRoute Command = 44
	CmdUserSpotCreate         Command = 47
	CmdUserSpotClose          Command = 48
	CmdActorCreate            Command = 49
	CmdFollowNotice           Command = 50
	CmdBindingReplaced        Command = 51
	CmdStateChunk             Command = 52
)

// Form says what a record expects in return.
type Form uint8

const (
	// OneWay records are answered by nothing.
	OneWay Form = iota + 1
	// Request records carry a correlation and end with one CmdReply or CmdError.
	Request
	// Answer records end a request.
	Answer
	// Either: the record is one-way, or a request if its correlation is not 0.
	Either
)

// Info is a command's row in the table.
type Info struct {
	Name string
	Form Form
	// Credited records count with their whole size against the message credits
	// that the receiver granted. All others are sent without waiting.
	Credited bool
	// Before and After say whether the record may come before and after its
	// receiver admitted the sender. Both ends of a link may send every command;
	// the order of the handshake is the business of package link.
	Before, After bool
	// Flags are the flag bits that the command knows.
	Flags uint8
}

// FlagSpot marks a CmdActorSend or CmdActorRequest that is meant for a Spot.
const FlagSpot = 0x01

// FlagRequest marks a CmdSessionPacket, CmdInstance, CmdUnbind or CmdNodeMessage that carries
// a correlation.
const FlagRequest = 0x01

// FlagAgain marks a CmdBind of a binding that its sender believes to stand.
const FlagAgain = 0x01

// FlagAsks marks a CmdInstance that is a request: its reply is the handler's.
const FlagAsks = 0x02

// FlagInUserSpot marks a CmdRestore whose target is a User Spot.
const FlagInUserSpot = 0x01

// FlagCommit marks a CmdSessionRelocationRoute of a move that was committed.
const FlagCommit = 0x01

// FlagClass marks a CmdPush that need not be delivered to a client that is behind.
const FlagClass = 0x01

// FlagWithdraw marks a CmdInterest whose topics are of no interest any more.
const FlagWithdraw = 0x01

// FlagReply marks a CmdRelayedReply that is no error.
const FlagReply = 0x80

// Flags of a CmdError, and of a CmdRelayedReply without FlagReply.
const (
	// FlagStale: the sender does not have the object, so the request was not
	// taken, and the route that led to it is wrong.
	FlagStale = 0x01
	// FlagApplication: the text is the application's own and may be shown to the
	// client that asked.
	FlagApplication = 0x02
)

// table is the one list of commands; everything else is derived from it.
var table = [256]Info{
	CmdHello:                  {Name: "hello", Form: OneWay, Before: true},
	CmdAdmit:                  {Name: "admit", Form: OneWay, Before: true},
	CmdReject:                 {Name: "reject", Form: OneWay, Before: true, After: true},
	CmdProbe:                  {Name: "probe", Form: OneWay, After: true},
	CmdAck:                    {Name: "ack", Form: OneWay, After: true},
	CmdCredit:                 {Name: "credit", Form: OneWay, After: true},
	CmdGoodbye:                {Name: "goodbye", Form: OneWay, After: true},
	CmdActorSend:              {Name: "actorSend", Form: OneWay, After: true, Credited: true, Flags: FlagSpot},
	CmdActorRequest:           {Name: "actorRequest", Form: Request, After: true, Credited: true, Flags: FlagSpot},
	CmdReply:                  {Name: "reply", Form: Answer, After: true},
	CmdError:                  {Name: "error", Form: Answer, After: true, Flags: FlagStale | FlagApplication},
	CmdActorDestroy:           {Name: "actorDestroy", Form: Request, After: true},
	CmdRouteStale:             {Name: "routeStale", Form: OneWay, After: true},
	CmdInstance:               {Name: "instanceMessage", Form: Either, After: true, Credited: true, Flags: FlagRequest | FlagAsks},
	CmdJoinAdmit:              {Name: "joinAdmit", Form: Request, After: true, Credited: true},
	CmdMoveProgress:           {Name: "moveProgress", Form: OneWay, After: true},
	CmdMoveAsk:                {Name: "moveAsk", Form: OneWay, After: true},
	CmdRelay:                  {Name: "relay", Form: OneWay, After: true, Credited: true},
	CmdCutover:                {Name: "cutover", Form: OneWay, After: true},
	CmdMoveAbort:              {Name: "moveAbort", Form: OneWay, After: true},
	CmdActorLeft:              {Name: "actorLeft", Form: OneWay, After: true},
	CmdSessionPacket:          {Name: "sessionPacket", Form: Either, After: true, Credited: true, Flags: FlagRequest},
	CmdRelayedReply:           {Name: "relayedReply", Form: OneWay, After: true, Flags: FlagReply | FlagStale | FlagApplication},
	CmdSourceDrained:          {Name: "sourceDrained", Form: OneWay, After: true},
	CmdBindingEnded:           {Name: "bindingEnded", Form: OneWay, After: true},
	CmdSessionClose:           {Name: "sessionClose", Form: OneWay, After: true},
	CmdSessionReconnecting:    {Name: "sessionReconnecting", Form: OneWay, After: true},
	CmdInterest:               {Name: "interest", Form: OneWay, After: true, Flags: FlagWithdraw},
	CmdPublish:                {Name: "publish", Form: OneWay, After: true, Credited: true},
	CmdNodeMessage:            {Name: "nodeMessage", Form: Either, After: true, Credited: true, Flags: FlagRequest},
	CmdOffer:                  {Name: "offer", Form: OneWay, After: true},
	CmdPressure:               {Name: "pressure", Form: OneWay, After: true},
	CmdPush:                   {Name: "push", Form: OneWay, After: true, Credited: true, Flags: FlagClass},
	CmdUnbind:                 {Name: "unbind", Form: Either, After: true, Flags: FlagRequest},
	CmdBind:                   {Name: "bind", Form: Request, After: true, Flags: FlagAgain},
	CmdRestore:                {Name: "restore", Form: Request, After: true, Flags: FlagInUserSpot},
	CmdSessionSeal:            {Name: "sessionSeal", Form: Request, After: true},
	CmdSessionSealed:          {Name: "sessionSealed", Form: Answer, After: true},
	CmdSessionRelocationRoute: {Name: "sessionRelocationRoute", Form: OneWay, After: true, Flags: FlagCommit},
	CmdUserSpotCreate:         {Name: "userSpotCreate", Form: Request, After: true},
	CmdUserSpotClose:          {Name: "userSpotClose", Form: Request, After: true},
	CmdActorCreate:            {Name: "actorCreate", Form: Request, After: true},
	CmdFollowNotice:           {Name: "followNotice", Form: OneWay, After: true},
	CmdBindingReplaced:        {Name: "bindingReplaced", Form: OneWay, After: true},
	CmdStateChunk:             {Name: "stateChunk", Form: OneWay, After: true},
}

// Info returns the command's row; ok is false for a number that is no command.
func (c Command) Info() (info Info, ok bool) {
	info = table[c]
	return info, info.Form != 0
}

// String returns the command's name, for logs.
func (c Command) String() string {
	if table[c].Form == 0 {
		return "command(" + strconv.Itoa(int(c)) + ")"
	}
	return table[c].Name
}
