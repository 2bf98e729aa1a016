package wire

// The records by which an Actor's owner tells the Session's owner of a binding's end, or asks
// for the Session's. All are one-way and say nothing to a Session whose binding is another one.

// BindingReplaced says that the Actor was bound to another Session, whose binding is in force.
// It is sent at most once for a binding.
type BindingReplaced struct {
	ID         []byte // of the Actor
	ObjGen     uint64 // ≥ 1
	Session    uint64 // not 0
	BindingGen uint64 // of the binding that is over, ≥ 1
}

// Size returns the size of the record.
func (r *BindingReplaced) Size() int { return tieSize(r.ID) }

// AppendTo appends the record to dst.
func (r *BindingReplaced) AppendTo(dst []byte) []byte {
	size := r.Size()
	dst = begin(dst, size, CmdBindingReplaced, 0)
	return end(appendTie(dst, r.ID, r.ObjGen, r.Session, r.BindingGen), size)
}

// DecodeBindingReplaced reads the body of a CmdBindingReplaced.
func DecodeBindingReplaced(body []byte) (r BindingReplaced, err error) {
	d := decoder{b: body, cmd: CmdBindingReplaced}
	d.tie(&r.ID, &r.ObjGen, &r.Session, &r.BindingGen)
	return r, d.done()
}

// BindingEnded says that the Actor is gone, and the binding with it.
type BindingEnded struct {
	ID         []byte // of the Actor
	ObjGen     uint64 // ≥ 1
	Session    uint64 // not 0
	BindingGen uint64 // ≥ 1
}

// Size returns the size of the record.
func (e *BindingEnded) Size() int { return tieSize(e.ID) }

// AppendTo appends the record to dst.
func (e *BindingEnded) AppendTo(dst []byte) []byte {
	size := e.Size()
	dst = begin(dst, size, CmdBindingEnded, 0)
	return end(appendTie(dst, e.ID, e.ObjGen, e.Session, e.BindingGen), size)
}

// DecodeBindingEnded reads the body of a CmdBindingEnded.
func DecodeBindingEnded(body []byte) (e BindingEnded, err error) {
	d := decoder{b: body, cmd: CmdBindingEnded}
	d.tie(&e.ID, &e.ObjGen, &e.Session, &e.BindingGen)
	return e, d.done()
}

// SessionClose asks for the end of the Session that the Actor is bound to, behind what the
// Actor has pushed.
type SessionClose struct {
	ID         []byte // of the Actor
	ObjGen     uint64 // ≥ 1
	Session    uint64 // not 0
	BindingGen uint64 // ≥ 1
	Text       []byte // for the client; cut at MaxText bytes
}

// Size returns the size of the record.
func (c *SessionClose) Size() int { return tieSize(c.ID) + 2 + len(clip(c.Text)) }

// AppendTo appends the record to dst.
func (c *SessionClose) AppendTo(dst []byte) []byte {
	size := c.Size()
	dst = begin(dst, size, CmdSessionClose, 0)
	dst = appendTie(dst, c.ID, c.ObjGen, c.Session, c.BindingGen)
	return end(appendS16(dst, clip(c.Text)), size)
}

// DecodeSessionClose reads the body of a CmdSessionClose.
func DecodeSessionClose(body []byte) (c SessionClose, err error) {
	d := decoder{b: body, cmd: CmdSessionClose}
	d.tie(&c.ID, &c.ObjGen, &c.Session, &c.BindingGen)
	c.Text = d.s16("text")
	return c, d.done()
}

// tieSize is the size of a record that names a binding and says no more.
func tieSize(id []byte) int { return HeaderSize + 1 + len(id) + 8 + 8 + 8 }

func appendTie(dst, id []byte, objGen, session, bindingGen uint64) []byte {
	dst = appendS8(dst, id)
	dst = appendU64(dst, objGen)
	dst = appendU64(dst, session)
	return appendU64(dst, bindingGen)
}

func (d *decoder) tie(id *[]byte, objGen, session, bindingGen *uint64) {
	*id = d.id("id")
	*objGen = d.someGen("objGen")
	*session = d.nonZero("session")
	*bindingGen = d.someGen("bindingGen")
}
