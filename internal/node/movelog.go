package node

import (
	"github.com/rs/zerolog"

	"github.com/zlnode/zlnode/internal/clock"
	"github.com/zlnode/zlnode/store"
)

// This file is what Joins and moves write to the log, nearly all at level Debug: a line for
// each step, with the operation by which the lines of both nodes are found. Below that level
// nothing is written out.

// moveLine is what one line says.
type moveLine struct {
	what     string
	actor    string
	op       store.OpID
	from, to string     // Spots of a Join, nodes of a move
	began    clock.Mono // the Join, or at its target the move
	err      *Error
}

// logMove fills the line, if somebody reads it.
func logMove(line *zerolog.Event, s moveLine) {
	if !line.Enabled() {
		return
	}
	line.Str("actor", clip(s.actor)).Hex("operation", s.op[:]).Str("from", clip(s.from)).Str("to", clip(s.to)).
		Dur("after", clock.Now().Sub(s.began))
	if s.err != nil {
		line.Str("error", clip(s.err.Error()))
	}
	line.Msg(s.what)
}

func (j *PendingJoin) log(what string, err *Error) {
	to := j.Spot
	if j.Entry {
		to = "an entry spot"
	}
	logMove(j.cell.node.log.Debug(), moveLine{what, j.cell.ref.ID, j.Op, j.cell.context.SpotID(), to, j.began(), err})
}

// logEnd says how a Join ended of which its Actor is told at this node.
func (j *PendingJoin) logEnd(o JoinOutcome) {
	switch o.Result {
	case JoinAccepted:
		j.log("a join was accepted", nil)
	case JoinRejected:
		j.log("a join was rejected", nil)
	case JoinFailed:
		j.log("a join failed", o.Err)
	case JoinDropped: // nobody is told
	}
}

func (j *PendingJoin) began() clock.Mono { return j.Deadline.Add(-j.Timeout) }

func (o *moveOut) log(what string, err *Error) {
	logMove(o.node.log.Debug(), moveLine{what, o.cell.ref.ID, o.op, o.node.cfg.RID, o.to.rid, o.began, err})
}

func (i *moveIn) log(what string, err *Error) { i.logTo(i.node.log.Debug(), what, err) }

func (i *moveIn) logTo(line *zerolog.Event, what string, err *Error) {
	i.mu.Lock()
	op := i.op
	i.mu.Unlock()
	logMove(line, moveLine{what, i.cell.ref.ID, op, i.from.rid, i.node.cfg.RID, i.began, err})
}
