package node

import (
	"time"

	"github.com/zlnode/zlnode/chunker"
	"github.com/zlnode/zlnode/internal/link"
	"github.com/zlnode/zlnode/internal/wire"
	"github.com/zlnode/zlnode/relay"
	"github.com/zlnode/zlnode/session"
)

// Every limit of a node that is not configured, with its reason.
const (
	// idBytesMax: an id's length travels in one byte and is part of a Store key.
	idBytesMax = wire.MaxID
	// nameBytesMax: a packet name's length travels in one byte.
	nameBytesMax = wire.MaxID
	// metadataBytesMax is the contract's bound on encoded metadata.
	metadataBytesMax = wire.MaxMetadata
	// payloadBytesMax bounds a message between nodes, so that one message delays
	// those behind it on the link by a bounded time.
	payloadBytesMax = wire.MaxPayload
	// requestBytesMax and replyBytesMax bound what a creation carries.
	requestBytesMax = 1 << 20
	replyBytesMax   = wire.MaxPayload

	// joinsMax and joinsBytesMax bound what one handler registers, so that it cannot fill
	// memory with requests that wait.
	joinsMax      = 64
	joinsBytesMax = 8 << 20
	// joinTimeout is that of a Join that sets none, with its move. It travels in
	// milliseconds, in 31 bits.
	joinTimeout    = 5 * time.Second
	joinTimeoutMin = time.Millisecond
	joinTimeoutMax = (1<<31 - 1) * time.Millisecond
	// insistMin is how long a callback of a Join that has ended is tried at least, if the
	// deadline is near or over.
	insistMin = time.Second

	// followTime is MessageFollowDuration if nothing is configured.
	followTime = 30 * time.Second
	// followSlack is how much longer than routes it is at least: messages are on their way.
	followSlack = 5 * time.Second
	// moveValidity is MoveValidity if nothing is configured, preparedMin how long a target
	// keeps a preparation at least.
	moveValidity = 60 * time.Second
	preparedMin  = 5 * time.Second
	// eventsMax bounds what one end of a move may have said that the other has not looked at
	// yet. An honest one has a few requests under way.
	eventsMax = 64
	// inventoryCallsMax bounds the chunks of an aggregate's inventory that are stored at once,
	// sessionSealsMax the Sessions that are asked at once to hold packets back, and
	// wideRestoresMax the parts of one aggregate that are restored at once.
	inventoryCallsMax, sessionSealsMax, wideRestoresMax = 4, 64, 16
	// movesGoneMax bounds the moves that are remembered as gone. Past it a source that asks
	// after one has no answer, and waits.
	movesGoneMax = 65_536
	// movesMax bounds the moves that leave at once, if nothing is configured, and
	// restoresMax what is restored at once: each has an object's state in memory. More than
	// movesTop cannot be configured.
	movesMax        = 64
	movesWaitingMax = 8192
	restoresMax     = 64
	movesTop        = 65_536

	// linkCreditBytes is what a node may have sent to another and not yet
	// consumed there. It must hold the largest record.
	linkCreditBytes = link.DefaultWindow
	// linkOutBytesMax bounds what waits in a link's out queue. A whole window of
	// the smallest credited records fits, with what the queue counts beside them;
	// the rest is for replies.
	linkOutBytesMax = 16 << 20

	// linkUnsentMax is what the kernel holds of a link unsent, so that a message waits for
	// little beside the chunk in the out queue, however fast the network is. The largest
	// message fits, so that one that has begun comes to its end though this process gets no
	// processor.
	linkUnsentMax = payloadBytesMax

	// objectQueueMessages and objectQueueBytes bound one object's queue if nothing is
	// configured, the others what can be: less would not hold the largest message.
	objectQueueMessages    = 4096
	objectQueueMessagesMax = 1 << 20
	objectQueueBytes       = 4 << 20
	objectQueueBytesMin    = payloadBytesMax + metadataBytesMax + nameBytesMax + 256
	objectQueueBytesMax    = 1 << 39
	// serviceQueueMessages and serviceQueueBytes bound what waits for one channel at a node
	// that serves it, or for the node itself, if nothing is configured. The bytes hold what
	// some links may have under way, so that one sender who is fast is slowed by its link's
	// credit before anything is refused. messageCost is what a message costs beside its own,
	// as in mailboxes. serviceGrant is how much of the node's budget is taken at once.
	serviceQueueMessages = 65_536
	serviceQueueBytes    = 32 << 20
	messageCost          = 256
	serviceGrant         = 64 << 10
	// serviceConcurrencyMax bounds the handlers of one service: no more wait at once in all of
	// a node.
	serviceConcurrencyMax = 4096
	// queueBytesMin is the least that a node's queues may hold together: a few objects'
	// at once.
	queueBytesMin = 1 << 20
	// sessionQueueMessages and sessionQueueBytes bound what one client may have
	// waiting for its session's handler.
	sessionQueueMessages = 256
	sessionQueueBytes    = 256 << 10
	// authTimeout is what a client has to authenticate, from when it connects, if nothing is
	// configured. authSlack is how much longer its connection is kept, so that it can be told.
	authTimeout = 5 * time.Second
	authSlack   = time.Second
	// authFrameMax bounds a client's frames before it has authenticated.
	authFrameMax = 4 << 10
	// sealedPackets bounds the packets of one client that wait while an Actor moves, to
	// which sessionQueueBytes applies too; keptShows and keptShowBytes what the Actor sends
	// it meanwhile from its new node.
	sealedPackets = 1024
	keptShows     = 1024
	keptShowBytes = 1 << 20

	// clientFrameMax is the largest frame that a client is sent.
	clientFrameMax = 1 << 20
	// clientUnsentMax is what the kernel holds for a client unsent: what it holds cannot be
	// replaced by anything newer.
	clientUnsentMax = 128 << 10
	// outMark is how much may be in a client's out queue before what follows waits in the
	// Session's outbox; at outLow the queue is filled again. Between them lies what is
	// written while the loop does other work.
	outMark = 64 << 10
	outLow  = outMark / 2
	// outBytes, outBurstBytes and outTime bound what waits for a client if nothing is
	// configured; outBytesMin is the least that can be. outTimeMin is what the sweeper can
	// tell.
	outBytes      = 1 << 20
	outBurstBytes = 4 << 20
	outTime       = 5 * time.Second
	outBytesMin   = 1 << 10
	outBytesMax   = 1 << 30
	outTimeMin    = sweepEvery
	// outboxesBytesMax bounds what all outboxes of a node hold beside outFree of each, so
	// that many slow clients do not fill its memory. Beyond it pushes that may be dropped
	// are, and who must have more is closed as slow.
	outboxesBytesMax = 256 << 20
	outFree          = 64 << 10
	// pressureEvery is the least time between two words to Actors about what waits for
	// their client.
	pressureEvery = 100 * time.Millisecond
	// reconnectBytes bounds the pushes that are kept for one client that may come back, if
	// nothing is configured, and reconnectGraceMax how long it may be away.
	reconnectBytes    = 256 << 10
	reconnectGraceMax = time.Hour
	// reservedMax bounds the Sessions of a node whose client is away, keptBytesMax the pushes
	// that it keeps for all clients. At the first, or over the second, a connection that is
	// lost is the end of its Session; a push over the second drives out the oldest of its
	// Session.
	reservedMax  = 65_536
	keptBytesMax = 256 << 20
	// cutoverWait is how long a move's target waits for the source's last word.
	cutoverWait = time.Second
	// bindingsMax bounds the Actors that one Session may be bound to.
	bindingsMax = 1024
	// noticesMax bounds the notices about its bindings that wait for one Session's turn.
	noticesMax = 1024
	// replacedTimeout is how long the application's part of the end of a Session may take whose
	// Actor was bound to another one; replacedDelay is from then to the close, for what it sent
	// to be read.
	replacedTimeout = 30 * time.Second
	replacedDelay   = 100 * time.Millisecond

	// subscribersMax bounds the subscribers of one topic at a node: the loop that gets a
	// message for them puts it into all of their queues. topicsMax and topicBytesMax bound
	// the topics that have some, as each link's other end has to know of them; what one Spot
	// may subscribe to is far less, so that one cannot use up the node's.
	subscribersMax = 16_384
	topicsMax      = wire.MaxTopics
	topicBytesMax  = wire.MaxTopicBytes
	spotTopicsMax  = 1024
	// interestMark is how much may wait in a link's out queue before further changes of
	// interest are told later, which may by then have undone each other.
	interestMark = 4 << 20

	// creationsMax bounds the creations that run at once on a node; more wait
	// for their turn until their deadline.
	creationsMax = 256
	// creationsWaitingMax bounds those that wait; more are refused.
	creationsWaitingMax = 8192
	// finishTime is how long a Destroy that a peer asked for is waited for.
	finishTime = 5 * time.Second
	// settleWaitMax bounds the pause between two tries to learn how a change of
	// the Store ended.
	settleWaitMax = 500 * time.Millisecond
	// shunTime is how long a target that did not take a unit of a relocation is not asked again.
	shunTime = 500 * time.Millisecond
	// untoldEvery is how often a node that is being relocated looks for reservations of which it
	// was not told: it waits for them, and what it was told is on its way for less.
	untoldEvery = 500 * time.Millisecond
	// closingsMax bounds the Spots whose OnClosing a node that stops waits for at once.
	closingsMax = 1024
	// changesMax bounds the Store calls that remove Actors or change their Spots at once, as
	// when a node is shut down.
	changesMax = 64
	// destroysMax bounds the Destroys that peers have asked for and that wait for
	// their Actor's turn or the Store.
	destroysMax = 8192

	// routesMax bounds the route cache. Past it routes are used once and not kept.
	routesMax = 1 << 18
	// routeAge is how long a route is used without asking the Store again, if nothing is
	// configured.
	routeAge = 15 * time.Second

	// lifecyclesMax bounds the RIDs whose newest lifecycle is remembered.
	lifecyclesMax = 65_536
	// sendersWaitingMax bounds the senders that wait for credit on one link.
	sendersWaitingMax = 65_536

	// firstServerWait is how long a message to a channel with connections of its own waits for a
	// first server at most, and waitersMax how many do.
	firstServerWait = 5 * time.Second
	waitersMax      = 65_536
	// sidesMax bounds the channels with connections of their own that a node serves, each by a
	// port, and those that it is a client of.
	sidesMax = 64

	// routeRecheck is how old a route must be before one that leads nowhere makes
	// the Store be asked again, so that callers of a dead node do not flood it.
	routeRecheck = time.Second

	// pendingMax bounds the requests of one node that wait for a reply from one peer.
	pendingMax = 1 << 20

	// evictEveryMin and evictEveryMax bound the pause between two looks for Instance Spots
	// that nobody uses: a quarter of the time after which they are closed.
	evictEveryMin = 10 * time.Millisecond
	evictEveryMax = time.Second

	// reservationsEvery is how often a node looks for reservations that it was not told
	// of. They are rare, and each costs one read.
	reservationsEvery = 3 * time.Second
	// rowCallsMax bounds the rows that are written again, or read again, at once after the
	// Store's epoch has changed or rows were freed, so that those who work are not held up.
	rowCallsMax = 32
	// rowWaitMax bounds a round's wait for another change of one row, so that many that
	// take long do not keep it from the rest. They have their turn in the next one.
	rowWaitMax = 100 * time.Millisecond

	// descriptorPoll is how often the node list's change number is read.
	descriptorPoll = time.Second
	// storeCallMax bounds one Store call that no caller's deadline bounds.
	storeCallMax = 3 * time.Second

	// dialBackoffMin and dialBackoffMax bound the pause between dials of a peer.
	dialBackoffMin = 50 * time.Millisecond
	dialBackoffMax = 5 * time.Second
	// dialBackoffSelf is the pause after a dial that reached this node itself.
	dialBackoffSelf = time.Minute
	// dialTimeout bounds one dial, handshake not included.
	dialTimeout = 3 * time.Second

	// sweepEvery is how often deadlines are looked at that nobody waits for in a
	// goroutine: of relayed requests, of binds, of Sessions whose Actors move and of clients
	// that are behind.
	sweepEvery = 250 * time.Millisecond
	// sweepPause between two of these looks says that this process had no processor.
	sweepPause = 4 * sweepEvery
	// routeSweepRounds is how many of these rounds pass between two looks at the
	// whole route cache.
	routeSweepRounds = 20

	// createWaitMin and createWaitMax bound the pause between two looks at a
	// creation that somebody else has begun.
	createWaitMin = 2 * time.Millisecond
	createWaitMax = 100 * time.Millisecond
	// nudgeEvery is how often one who waits for a creation asks its target to run it.
	nudgeEvery = 300 * time.Millisecond
)

// Packages that do not know each other mean the same by these, or this does not compile.
var (
	_ [0]struct{} = [relay.HopsMax - wire.MaxHops]struct{}{}
	_ [0]struct{} = [relay.EntryChunkBytes - chunker.EntryChunkBytes]struct{}{}
	_ [0]struct{} = [chunker.ChunkMin - wire.MinChunk]struct{}{}
	_ [0]struct{} = [chunker.ChunkMax - wire.MaxChunk]struct{}{}
	_ [0]struct{} = [chunker.Zstd - wire.MaxCompression]struct{}{}
	_ [0]struct{} = [session.PushKeyMax - wire.MaxPushKey]struct{}{}
	_ [0]struct{} = [session.NewestPerKey - wire.PushNewestPerKey]struct{}{}
	_ [0]struct{} = [session.DropOldest - wire.MaxPushClass]struct{}{}
)
