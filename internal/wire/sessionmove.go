package wire

// The records between the owner of a Session and the owners, old and new, of an Actor that
// is bound to it and moves. The Session's owner is the receiver of all of them, but for the
// SessionSealed that it answers.

// SessionSeal asks the Session's owner to hold back what comes for the Actor. The answer is
// a SessionSealed, behind the last packet that it sent to the Actor, or an error.
type SessionSeal struct {
	Correlation uint64   // not 0
	Relocation  [16]byte // not zero
	Session     uint64   // not 0
	BindingGen  uint64   // ≥ 1
	ID          []byte   // of the Actor
	ObjGen      uint64   // ≥ 1
	OwnerGen    uint64   // AuthorityOwnerGeneration of the sender, ≥ 1
}

// Size returns the size of the record.
func (s *SessionSeal) Size() int { return HeaderSize + 8 + 16 + 8 + 8 + 1 + len(s.ID) + 8 + 8 }

// AppendTo appends the record to dst.
func (s *SessionSeal) AppendTo(dst []byte) []byte {
	size := s.Size()
	dst = begin(dst, size, CmdSessionSeal, 0)
	dst = appendU64(dst, s.Correlation)
	dst = append(dst, s.Relocation[:]...)
	dst = appendU64(dst, s.Session)
	dst = appendU64(dst, s.BindingGen)
	dst = appendS8(dst, s.ID)
	dst = appendU64(dst, s.ObjGen)
	return end(appendU64(dst, s.OwnerGen), size)
}

// DecodeSessionSeal reads the body of a CmdSessionSeal.
func DecodeSessionSeal(body []byte) (s SessionSeal, err error) {
	d := decoder{b: body, cmd: CmdSessionSeal}
	s.Correlation = d.nonZero("correlation")
	s.Relocation = d.op("relocation")
	s.Session = d.nonZero("session")
	s.BindingGen = d.someGen("bindingGen")
	s.ID = d.id("id")
	s.ObjGen = d.someGen("objGen")
	s.OwnerGen = d.someGen("ownerGen")
	return s, d.done()
}

// SessionSealed answers a SessionSeal: no packet of the binding comes behind it.
type SessionSealed struct {
	Correlation uint64 // of the request
}

// Size returns the size of the record.
func (*SessionSealed) Size() int { return HeaderSize + 8 }

// AppendTo appends the record to dst.
func (s *SessionSealed) AppendTo(dst []byte) []byte {
	return appendNumber(dst, CmdSessionSealed, s.Correlation)
}

// DecodeSessionSealed reads the body of a CmdSessionSealed.
func DecodeSessionSealed(body []byte) (s SessionSealed, err error) {
	d := decoder{b: body, cmd: CmdSessionSealed}
	s.Correlation = d.nonZero("correlation")
	return s, d.done()
}

// SourceDrained follows the last push of the Actor's old owner: from here on the
// Session's owner shows the client those of the new one.
type SourceDrained struct {
	Relocation [16]byte // not zero
	Session    uint64   // not 0
	BindingGen uint64   // ≥ 1
	ID         []byte   // of the Actor
	ObjGen     uint64   // ≥ 1
}

// Size returns the size of the record.
func (s *SourceDrained) Size() int { return HeaderSize + 16 + 8 + 8 + 1 + len(s.ID) + 8 }

// AppendTo appends the record to dst.
func (s *SourceDrained) AppendTo(dst []byte) []byte {
	size := s.Size()
	dst = begin(dst, size, CmdSourceDrained, 0)
	dst = append(dst, s.Relocation[:]...)
	dst = appendU64(dst, s.Session)
	dst = appendU64(dst, s.BindingGen)
	dst = appendS8(dst, s.ID)
	return end(appendU64(dst, s.ObjGen), size)
}

// DecodeSourceDrained reads the body of a CmdSourceDrained.
func DecodeSourceDrained(body []byte) (s SourceDrained, err error) {
	d := decoder{b: body, cmd: CmdSourceDrained}
	s.Relocation = d.op("relocation")
	s.Session = d.nonZero("session")
	s.BindingGen = d.someGen("bindingGen")
	s.ID = d.id("id")
	s.ObjGen = d.someGen("objGen")
	return s, d.done()
}

// SessionRelocationRoute tells the Session's owner how the move ended, so that it submits
// what it held: with Commit to the target, else to the source, which keeps the Actor.
type SessionRelocationRoute struct {
	Commit     bool     // FlagCommit
	Relocation [16]byte // of the seal, not zero
	Ref        Ref      // the Actor where it is now: at the target, or still at the source
	Owner      Process  // of the Session
	Session    uint64   // not 0
	BindingGen uint64   // ≥ 1
}

// Size returns the size of the record.
func (s *SessionRelocationRoute) Size() int {
	return HeaderSize + 16 + s.Ref.size() + s.Owner.size() + 8 + 8
}

// AppendTo appends the record to dst.
func (s *SessionRelocationRoute) AppendTo(dst []byte) []byte {
	size, flags := s.Size(), uint8(0)
	if s.Commit {
		flags = FlagCommit
	}
	dst = begin(dst, size, CmdSessionRelocationRoute, flags)
	dst = append(dst, s.Relocation[:]...)
	dst = s.Ref.appendTo(dst)
	dst = s.Owner.appendTo(dst)
	dst = appendU64(dst, s.Session)
	return end(appendU64(dst, s.BindingGen), size)
}

// DecodeSessionRelocationRoute reads the body of a CmdSessionRelocationRoute with its flags.
func DecodeSessionRelocationRoute(flags uint8, body []byte) (s SessionRelocationRoute, err error) {
	d := decoder{b: body, cmd: CmdSessionRelocationRoute}
	s.Commit = flags&FlagCommit != 0
	s.Relocation = d.op("relocation")
	s.Ref = d.ref()
	s.Owner = d.process("owner.rid", "owner.lifecycle")
	s.Session = d.nonZero("session")
	s.BindingGen = d.someGen("bindingGen")
	return s, d.done()
}
