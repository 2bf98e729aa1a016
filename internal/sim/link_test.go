package sim

import (
	"slices"
	"testing"
)

// scriptsOfLinks are the faults of scripts that hurt a link, and do not end it for both at once.
var scriptsOfLinks = []string{
	"S-T half-open at S", "S-T half-open at T", "T-O half-open at T", "S-O half-open at O",
	"S links T anew at once", "S links T anew, and what it sent is late",
	"S links O anew, and what it sent is late", "T links O anew, and what it sent is late",
	"T gets nothing more of S", "S gets nothing more of T", "O gets nothing more of T",
}

// linkScripts returns scripts in which a link is hurt at many steps of a move.
func linkScripts(t *testing.T) (all []Script) {
	t.Helper()
	calm := Play(Script{Story: StoryRoom}, 0)
	n := 0
	for f := range ScriptFaults {
		if !slices.Contains(scriptsOfLinks, ScriptFault(f).String()) {
			continue
		}
		for step := 1; step < calm.Known+15; step++ {
			if n++; n%linkEvery == 0 {
				all = append(all, Script{StoryRoom, []FaultAt{{step, ScriptFault(f)}}})
			}
		}
	}
	return all
}

const linkEvery = 13

// One end of a link learns of its end before the other, or one way of it is dead, or it is
// replaced while records of it are on their way, at each step of a move: then nothing of a link is
// handled behind the first record of the next, a request ends once, and the two ends come to have
// the same link.
//
// req: FO-03
// req: FO-07
// req: FO-08
func TestALinkThatIsHurtAtEachStepOfAMove(t *testing.T) {
	all := linkScripts(t)
	cover := playScripts(t, all)
	t.Logf("%d scripts\n%v", len(all), cover)
	if missing := cover.Missing(linkWanted); len(missing) > 0 && !t.Failed() && !*bareFlag {
		t.Errorf("the scripts proved nothing of %q, which they never reached", missing)
	}
}

// linkWanted is what the scripts of links must have reached.
var linkWanted = each([]string{"S R01", "S R05-R08", "S R09-R11", "T R02", "T R08-R10"}, linkFaults, []string{
	"a link was replaced", "a record of a link that is over was dropped", "a silent peer was given up",
	"relayed again over a new link", "late reply",
})

const (
	linkFile     = "internal/sim/link.go"
	linkNetFile  = "internal/sim/net.go"
	linkHostFile = "internal/sim/move_host.go"
)

// linkMutants are defects of links that the oracle must see.
var linkMutants = []mutant{
	{"what is left of a link is handled behind the first record of the next", linkNetFile, []string{
		"	if here.stopped {\n		w.Cover", "	if false {\n		w.Cover",
	}, []string{"FO-08"}},
	{"a new link gives out correlations of the one before", linkFile, []string{
		"uint64(2*w.dials+i) << correlationBits", "uint64(i)",
	}, []string{"FO-08", "I6", "I12"}},
	{"what was asked by a link is not ended with it", linkHostFile, []string{
		"	for n := here.corrsAt + 1; n <= here.corrs; n++ {\n", "	for n := here.corrsAt + 1; n <= here.corrs && false; n++ {\n",
	}, []string{"FO-07"}},
	{"what was asked by a link is ended with it, and again", linkHostFile, []string{
		"		if p := h.pending[is]; p != nil {\n			delete(h.pending, is)\n			p.done(reply{fail: errLinkLost", "		if p := h.pending[is]; p != nil {\n			p.done(reply{fail: errLinkLost",
	}, []string{"I6"}},
	{"a creation that was asked for by a link is not ended with it", linkNetFile, []string{
		"r != nil && r.link == l {", "r != nil && r.link == nil {",
	}, []string{"FO-07"}},
	{"the end of a link takes the place of the next one", linkFile, []string{
		"	if p.links[other.slot] == l {\n		p.links[other.slot] = nil\n	}\n	if p.dialled", "	p.links[other.slot] = nil\n	if p.dialled",
	}, []string{"I11", "I12"}},
	{"a link that is replaced is not ended", linkFile, []string{
		"			p.links[other.slot] = nil\n			p.quit(before)\n", "			p.links[other.slot] = nil\n",
	}, []string{"FO-08", "I11", "I12"}},
	{"a peer that is silent is kept", "internal/link/liveness.go", []string{
		"	case now.Reached(l.deadline):\n", "	case false:\n",
	}, []string{"I11", "I12"}},
	{"each end keeps the link that came last", "internal/link/slot.go", []string{
		"	case incoming.Dialled == (self < incoming.Peer):\n", "	case true:\n",
	}, []string{"I9", "I12", "I11"}},
}
