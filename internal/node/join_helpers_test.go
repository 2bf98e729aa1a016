package node

// Accept, Reject and Fail decide a Join for a test and return when it is over. The first of
// them wins, the others return false.
func (j *PendingJoin) Accept() bool { return j.settle(JoinOutcome{Result: JoinAccepted}) }

func (j *PendingJoin) Reject() bool { return j.settle(JoinOutcome{Result: JoinRejected}) }

func (j *PendingJoin) Fail(err *Error) bool { return j.settle(joinFailed(err)) }

func (j *PendingJoin) settle(o JoinOutcome) bool {
	if !j.decide(o) {
		return false
	}
	<-j.done
	return true
}
