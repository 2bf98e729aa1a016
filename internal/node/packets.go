package node

// packetType is what an object type does with the packets of a name.
type packetType struct {
	name    string
	send    SendHandler    // nil: it takes none
	request RequestHandler // nil: it takes none
}

// packetTable finds the packets of a type by their names. The names are known before the
// node starts and each message looks one up, so the hash takes four of a name's bytes only,
// and a table is at most a quarter full: a third of the time of a map.
type packetTable struct {
	slots []*packetType // a power of two; nil: empty
	n     int
}

// find returns the packet of that name, or nil.
func (t *packetTable) find(name string) *packetType {
	if len(t.slots) == 0 || name == "" {
		return nil
	}
	for i := hashName(name); ; i++ {
		p := t.slots[i&uint32(len(t.slots)-1)]
		if p == nil || p.name == name {
			return p
		}
	}
}

// add returns the packet of a name, to be filled in.
func (t *packetTable) add(name string) *packetType {
	if p := t.find(name); p != nil {
		return p
	}
	if t.n++; 4*t.n > len(t.slots) {
		old := t.slots
		t.slots = make([]*packetType, max(8, 2*len(old)))
		for _, p := range old {
			if p != nil {
				t.put(p)
			}
		}
	}
	p := &packetType{name: name}
	t.put(p)
	return p
}

func (t *packetTable) put(p *packetType) {
	i := hashName(p.name)
	for t.slots[i&uint32(len(t.slots)-1)] != nil {
		i++
	}
	t.slots[i&uint32(len(t.slots)-1)] = p
}

// hashName is of names that are not empty.
func hashName(name string) uint32 {
	n := len(name)
	h := uint32(name[0]) | uint32(name[n/2])<<8 | uint32(name[n-1])<<16 | uint32(n)<<24
	h = (h ^ uint32(name[n*3/4])<<12) * 0x9E3779B1
	return h ^ h>>15
}
