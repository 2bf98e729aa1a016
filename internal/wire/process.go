package wire

// Process names one process of a node: its RID and the lifecycle of that process.
type Process struct {
	RID       []byte
	Lifecycle uint64 // ≥ 1, or 0 if there is no RID
}

func (p *Process) size() int { return 1 + len(p.RID) + 8 }

func (p *Process) appendTo(dst []byte) []byte {
	return appendU64(appendS8(dst, p.RID), p.Lifecycle)
}

// process reads a process that must be there.
func (d *decoder) process(rid, lifecycle string) (p Process) {
	p.RID = d.rid(rid)
	p.Lifecycle = d.someGen(lifecycle)
	return p
}

// optionalProcess is process, or none: an empty RID and lifecycle 0.
func (d *decoder) optionalProcess(rid, lifecycle string) (p Process) {
	if len(d.b) == 0 || d.b[0] != 0 {
		return d.process(rid, lifecycle)
	}
	d.b = d.b[1:]
	if d.gen(lifecycle) != 0 {
		d.fail(lifecycle, ErrValue)
	}
	return p
}
