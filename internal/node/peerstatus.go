package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/zlnode/zlnode/internal/clock"
)

// PeerState says how far the link to a peer is.
type PeerState uint8

// The states.
const (
	// PeerConfigured: the peer is known, and it is not its time to be dialled, or it is the
	// peer that dials.
	PeerConfigured PeerState = iota
	// PeerConnecting: it is being dialled, or the handshake goes on.
	PeerConnecting
	// PeerAdmitted: the link is open, and the peer does not serve: it starts, is relocated or stops.
	PeerAdmitted
	// PeerReady: the link is open.
	PeerReady
	// PeerReconnecting: the last dial has failed or the last link was lost; it goes on.
	PeerReconnecting
	// PeerNotRequired: neither needs the other, so there is no link and nobody dials.
	PeerNotRequired
)

// String returns the state's name.
func (s PeerState) String() string {
	names := [...]string{"Configured", "Connecting", "Admitted", "Ready", "Reconnecting", "NotRequired"}
	if int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("PeerState(%d)", uint8(s))
}

// PeerStatus is what a node knows of another one in one of its meshes, or about a channel that
// has connections of its own.
type PeerStatus struct {
	Mesh        string // "": of a channel
	Channel     string // "": of a mesh
	RID         string // "": it is not known who is at Endpoint
	Lifecycle   uint64 // of its process; 0: not known
	Endpoint    string // that is dialled; "": none
	Manual      bool   // it is named in the configuration
	State       PeerState
	Since       time.Time // when it came to be in that state
	Attempts    int       // dials since it had a link
	LastFailure string    // why the last dial, or the last link, failed; "": none has
}

// Peers returns the other nodes of all meshes of the node: those that the Store's list has,
// those of the configuration, and who else has a link. They are sorted by mesh, channel, RID
// and endpoint.
func (n *Node) Peers() []PeerStatus {
	var all []PeerStatus
	for m := range n.eachNet() {
		all = m.peers.status(all)
	}
	slices.SortFunc(all, func(a, b PeerStatus) int {
		return cmp.Or(cmp.Compare(a.Mesh, b.Mesh), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.RID, b.RID), cmp.Compare(a.Endpoint, b.Endpoint))
	})
	return all
}

// status appends what is known of the peers. Of one that the configuration names by its
// endpoint, and the list by its RID, it tells once.
func (p *peers) status(all []PeerStatus) []PeerStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, told := clock.Now(), map[string]bool{}
	tell := func(q *peer) {
		if q.rid != "" && told[q.rid] {
			return
		}
		told[q.rid] = true
		p.look(q, now)
		s := PeerStatus{
			Mesh: p.mesh.meshName(), Channel: p.mesh.channelName(), RID: q.rid, Lifecycle: uint64(q.lifecycle), Endpoint: q.endpoint, Manual: q.manual,
			State: q.state, Since: q.since.Time(), Attempts: q.attempts, LastFailure: q.failure,
		}
		if l := p.link(q); l != nil {
			s.Lifecycle = l.peer.Lifecycle
		}
		all = append(all, s)
	}
	for _, q := range p.unnamed {
		tell(q)
	}
	for _, q := range p.known {
		tell(q)
	}
	for rid, l := range p.mesh.links.all() {
		if !told[rid] {
			all = append(all, PeerStatus{
				Mesh: p.mesh.meshName(), Channel: p.mesh.channelName(), RID: rid, Lifecycle: l.peer.Lifecycle, State: PeerReady, Since: l.opened.Time(),
			})
		}
	}
	return all
}
