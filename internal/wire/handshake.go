package wire

// Role is what a node is on a link, as its hello says it: in a mesh what it does with objects,
// on a connection of a ClientServer channel which end it is.
type Role uint8

// The roles; the numbers of the first three are those of the Location Store.
const (
	RoleNone          Role = 0 // no objects
	RoleClient        Role = 1 // uses objects, hosts none
	RoleServer        Role = 2 // hosts objects
	RoleChannelServer Role = 3 // serves the channel that Hello.Mesh names
	RoleChannelClient Role = 4 // sends to it
)

// Meets reports whether a link may be between nodes of the two roles: in a mesh all may, and of
// the two ends of a channel's connection one is the server, the other the client.
func (r Role) Meets(other Role) bool {
	inMesh, otherInMesh := r <= RoleServer, other <= RoleServer
	return inMesh && otherInMesh || !inMesh && !otherInMesh && r != other
}

// Hello opens a link: the dialler's first, then the acceptor's. Nothing in it is
// believed before the MAC of the following Admit covers it.
type Hello struct {
	MinVersion uint16 // oldest protocol version that the sender speaks, ≥ 1
	MaxVersion uint16 // newest, ≥ MinVersion
	Mesh       []byte // or the channel, as Role says
	RID        []byte // of the sender
	Lifecycle  uint64 // of the sender's process, ≥ 1
	Role       Role
	Nonce      [32]byte // fresh and random for each connection
	ExpectRID  []byte   // RID that the sender wants to talk to; empty: whoever answers
}

// Size returns the size of the record.
func (h *Hello) Size() int {
	return HeaderSize + 2 + 2 + 1 + len(h.Mesh) + 1 + len(h.RID) + 8 + 1 + 32 + 1 + len(h.ExpectRID)
}

// AppendTo appends the record to dst.
func (h *Hello) AppendTo(dst []byte) []byte {
	size := h.Size()
	dst = begin(dst, size, CmdHello, 0)
	dst = appendU16(dst, h.MinVersion)
	dst = appendU16(dst, h.MaxVersion)
	dst = appendS8(dst, h.Mesh)
	dst = appendS8(dst, h.RID)
	dst = appendU64(dst, h.Lifecycle)
	dst = append(dst, byte(h.Role))
	dst = append(dst, h.Nonce[:]...)
	dst = appendS8(dst, h.ExpectRID)
	return end(dst, size)
}

// DecodeHello reads the body of a CmdHello.
func DecodeHello(body []byte) (h Hello, err error) {
	d := decoder{b: body, cmd: CmdHello}
	h.MinVersion = d.u16("minVersion")
	h.MaxVersion = d.u16("maxVersion")
	if h.MinVersion == 0 {
		d.fail("minVersion", ErrEmpty)
	} else if h.MaxVersion < h.MinVersion {
		d.fail("maxVersion", ErrValue)
	}
	h.Mesh = d.id("mesh")
	h.RID = d.rid("rid")
	h.Lifecycle = d.someGen("lifecycle")
	h.Role = Role(d.u8max("role", uint8(RoleChannelClient)))
	h.Nonce = d.hash("nonce")
	h.ExpectRID = d.s8("expectRid")
	if len(h.ExpectRID) > 0 && !validRID(h.ExpectRID) {
		d.fail("expectRid", ErrValue)
	}
	return h, d.done()
}

// Admit proves that the sender holds the mesh key and has seen both hellos, and
// grants the receiver its first credits: the dialler's first, then the acceptor's.
type Admit struct {
	MAC     [32]byte // HMAC-SHA256, see package link
	Window  uint64   // bytes of credited records that the receiver may send, MinWindow–MaxWindow
	Version uint16   // the protocol version chosen, ≥ 1
}

// Size returns the size of the record.
func (*Admit) Size() int { return HeaderSize + 32 + 8 + 2 }

// AppendTo appends the record to dst.
func (a *Admit) AppendTo(dst []byte) []byte {
	size := a.Size()
	dst = begin(dst, size, CmdAdmit, 0)
	dst = append(dst, a.MAC[:]...)
	dst = appendU64(dst, a.Window)
	dst = appendU16(dst, a.Version)
	return end(dst, size)
}

// DecodeAdmit reads the body of a CmdAdmit.
func DecodeAdmit(body []byte) (a Admit, err error) {
	d := decoder{b: body, cmd: CmdAdmit}
	a.MAC = d.hash("mac")
	a.Window = d.u64("window")
	if a.Window < MinWindow || a.Window > MaxWindow {
		d.fail("window", ErrValue)
	}
	if a.Version = d.u16("version"); a.Version == 0 {
		d.fail("version", ErrEmpty)
	}
	return a, d.done()
}

// RejectReason says why a node refuses a link.
type RejectReason uint8

// The reasons. 0 is none.
const (
	RejectBadMesh        RejectReason = 1  // the sender belongs to another mesh
	RejectBadVersion     RejectReason = 2  // no protocol version in common
	RejectBadKey         RejectReason = 3  // the MAC does not verify
	RejectWrongPeer      RejectReason = 4  // the RID is not the one that was dialled or expected
	RejectSelfDial       RejectReason = 5  // both ends have the same RID
	RejectStaleLifecycle RejectReason = 6  // a newer process of that RID was admitted before
	RejectDuplicate      RejectReason = 7  // the pair has a link that is preferred
	RejectNotReady       RejectReason = 8  // the node cannot take links yet, or not this peer's
	RejectProtocolError  RejectReason = 9  // a record broke the format or the order
	RejectShuttingDown   RejectReason = 10 // the node takes no new links
	RejectBadCertificate RejectReason = 11 // the TLS certificate is not for the RID
)

var rejectNames = [...]string{
	"none", "badMesh", "badVersion", "badKey", "wrongPeer", "selfDial",
	"staleLifecycle", "duplicate", "notReady", "protocolError", "shuttingDown", "badCertificate",
}

// String returns the reason's name, for logs.
func (r RejectReason) String() string { return enumName(rejectNames[:], uint8(r)) }

// Reject refuses a link; its sender closes the connection after it. It comes
// during the handshake, or from a dialler right after the acceptor's Admit, or as the
// first record of a dialler that has seen the acceptor's certificate.
type Reject struct {
	Reason RejectReason
	Text   []byte // for the peer's log; says nothing that Reason does not
}

// Size returns the size of the record.
func (r *Reject) Size() int { return HeaderSize + 1 + 2 + len(clip(r.Text)) }

// AppendTo appends the record to dst.
func (r *Reject) AppendTo(dst []byte) []byte {
	return appendReason(dst, r.Size(), CmdReject, uint8(r.Reason), r.Text)
}

// DecodeReject reads the body of a CmdReject.
func DecodeReject(body []byte) (r Reject, err error) {
	d := decoder{b: body, cmd: CmdReject}
	r.Reason = RejectReason(d.reason(uint8(RejectBadCertificate)))
	r.Text = d.s16("text")
	return r, d.done()
}
