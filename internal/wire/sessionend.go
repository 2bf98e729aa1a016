package wire

// The records by which an Actor's owner tells the Session's owner of a binding's end, or asks
// for the Session's. All are one-way and say nothing to a Session whose binding is another one.

// BindingReplaced says that the Actor was bound to another Session, whose binding is in force.
// It is sent at most once for a binding, and names the one that is over.
type BindingReplaced struct{ BindingName }

// Size returns the size of the record.
func (r *BindingReplaced) Size() int { return HeaderSize + r.BindingName.size() }

// AppendTo appends the record to dst.
func (r *BindingReplaced) AppendTo(dst []byte) []byte {
	size := r.Size()
	dst = begin(dst, size, CmdBindingReplaced, 0)
	return end(r.BindingName.appendTo(dst), size)
}

// DecodeBindingReplaced reads the body of a CmdBindingReplaced.
func DecodeBindingReplaced(body []byte) (r BindingReplaced, err error) {
	d := decoder{b: body, cmd: CmdBindingReplaced}
	r.BindingName = d.bindingName()
	return r, d.done()
}

// BindingEnded says that the Actor is gone, and the binding with it.
type BindingEnded struct{ BindingName }

// Size returns the size of the record.
func (e *BindingEnded) Size() int { return HeaderSize + e.BindingName.size() }

// AppendTo appends the record to dst.
func (e *BindingEnded) AppendTo(dst []byte) []byte {
	size := e.Size()
	dst = begin(dst, size, CmdBindingEnded, 0)
	return end(e.BindingName.appendTo(dst), size)
}

// DecodeBindingEnded reads the body of a CmdBindingEnded.
func DecodeBindingEnded(body []byte) (e BindingEnded, err error) {
	d := decoder{b: body, cmd: CmdBindingEnded}
	e.BindingName = d.bindingName()
	return e, d.done()
}

// SessionClose asks for the end of the Session that the Actor is bound to, behind what the
// Actor has pushed.
type SessionClose struct {
	BindingName
	Text []byte // for the client; cut at MaxText bytes
}

// Size returns the size of the record.
func (c *SessionClose) Size() int { return HeaderSize + c.BindingName.size() + 2 + len(clip(c.Text)) }

// AppendTo appends the record to dst.
func (c *SessionClose) AppendTo(dst []byte) []byte {
	size := c.Size()
	dst = begin(dst, size, CmdSessionClose, 0)
	dst = c.BindingName.appendTo(dst)
	return end(appendS16(dst, clip(c.Text)), size)
}

// DecodeSessionClose reads the body of a CmdSessionClose.
func DecodeSessionClose(body []byte) (c SessionClose, err error) {
	d := decoder{b: body, cmd: CmdSessionClose}
	c.BindingName = d.bindingName()
	c.Text = d.s16("text")
	return c, d.done()
}
