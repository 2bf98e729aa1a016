package storetest

import (
	"sync/atomic"
	"time"

	"github.com/zlnode/zlnode/store"
)

var leaseCases = []testCase{
	{"IsTakenWithANewGeneration", func(w *world) {
		first, second := w.lease("node-a"), w.lease("node-b")
		if first.Gen == 0 || second.Gen <= first.Gen {
			w.t.Errorf("generations %d, then %d; want them to grow from above 0", first.Gen, second.Gen)
		}
		if first.RID != "node-a" || first.Remaining != longTTL {
			w.t.Errorf("lease is %+v; want the RID's with %v left", first, longTTL)
		}
	}},
	{"OfALiveProcessIsHeld", func(w *world) {
		held := w.lease("node-a")
		r, err := w.s.AcquireLease(w.ctx(), "node-a", randomHex(), longTTL)
		if err != nil || r.Reason != store.LeaseHeld {
			w.t.Fatalf("second process got %+v, %v; want LeaseHeld", r, err)
		}
		if r.Lease.OwnerID != held.OwnerID || r.Lease.Gen != held.Gen || r.Lease.Remaining <= 0 || r.Lease.Remaining > longTTL {
			w.t.Errorf("LeaseHeld names %+v; want the holder %+v", r.Lease, held)
		}
	}},
	{"RIDsAreCaseSensitive", func(w *world) {
		w.lease("node-a")
		w.lease("NODE-A")
	}},
	{"AcquireRepeatsItsAnswerForTheHolder", func(w *world) {
		held := w.lease("node-a")
		r, err := w.s.AcquireLease(w.ctx(), "node-a", held.OwnerID, 2*longTTL)
		if err != nil || r.Reason != store.AlreadyApplied || r.Lease.Gen != held.Gen {
			w.t.Fatalf("repeat got %+v, %v; want AlreadyApplied with generation %d", r, err, held.Gen)
		}
		if r.Lease.Remaining > longTTL {
			w.t.Errorf("repeat extended the lease to %v", r.Lease.Remaining)
		}
	}},
	{"ReleasedIsFreeAtOnce", func(w *world) {
		held := w.lease("node-a")
		if reason, err := w.s.ReleaseLease(w.ctx(), held); err != nil || reason != store.Applied {
			w.t.Fatalf("ReleaseLease = %v, %v", reason, err)
		}
		if reason, err := w.s.ReleaseLease(w.ctx(), held); err != nil || reason != store.Missing {
			w.t.Errorf("second ReleaseLease = %v, %v; want Missing", reason, err)
		}
		w.renew(held, longTTL, store.Missing)
		if next := w.lease("node-a"); next.Gen <= held.Gen {
			w.t.Errorf("generation %d after %d", next.Gen, held.Gen)
		}
	}},
	{"ExpiredIsFreeForAnother", func(w *world) {
		p := w.server("node-a")
		w.expire(p)
		next := w.lease("node-a")
		if next.Gen <= p.Gen {
			w.t.Errorf("generation %d after %d", next.Gen, p.Gen)
		}
		if holder := w.renew(p.Lease, longTTL, store.LeaseSuperseded); holder.OwnerID != next.OwnerID || holder.Gen != next.Gen {
			w.t.Errorf("LeaseSuperseded names %+v; want %+v", holder, next)
		}
	}},
	{"ExpiredCanBeRenewedWhileNobodyTookIt", func(w *world) {
		p := w.server("node-a")
		w.expire(p)
		if l := w.renew(p.Lease, longTTL, store.Applied); l.Gen != p.Gen || l.Remaining != longTTL {
			w.t.Errorf("renewed lease is %+v; want generation %d with %v left", l, p.Gen, longTTL)
		}
		w.publish(p.Lease, p.desc, store.AlreadyApplied)
	}},
	{"ThatIsNotThereIsWrittenAgainForWhoKnowsAnEarlierEpochOnly", func(w *world) {
		p := w.server("node-a")
		release := func() {
			w.t.Helper()
			if reason, err := w.s.ReleaseLease(w.ctx(), p.Lease); err != nil || reason != store.Applied {
				w.t.Fatalf("ReleaseLease = %v, %v", reason, err)
			}
		}
		first := w.epoch()
		release()
		w.renewKnowing(first, p.Lease, longTTL, store.Missing)
		second := w.raise()
		if r := w.renewKnowing(first, p.Lease, longTTL, store.Applied); r.Epoch != second || r.Lease.Gen != p.Gen || r.Lease.Remaining != longTTL {
			w.t.Errorf("written again as %+v; want generation %d in epoch %d", r, p.Gen, second)
		}
		w.publish(p.Lease, p.desc, store.Applied)
		release()
		// It is of the first epoch, but was there in the second.
		w.renewKnowing(second, p.Lease, longTTL, store.Missing)
		w.publish(p.Lease, p.desc, store.LeaseExpired)
		next := w.lease("node-a")
		for _, known := range []store.Epoch{first, second} {
			if r := w.renewKnowing(known, p.Lease, longTTL, store.LeaseSuperseded); r.Lease.Gen != next.Gen || r.Epoch != second {
				w.t.Errorf("LeaseSuperseded names %+v; want %+v in epoch %d", r, next, second)
			}
		}
	}},
	{"RenewalOfWhoKnowsNoEpochIsInvalid", func(w *world) {
		held := w.lease("node-a")
		w.wantInvalid(func() error {
			_, err := w.s.RenewLease(w.ctx(), held, 0, longTTL)
			return err
		})
	}},
	{"OfAnotherIsNotReleased", func(w *world) {
		p := w.server("node-a")
		w.expire(p)
		next := w.lease("node-a")
		if reason, err := w.s.ReleaseLease(w.ctx(), p.Lease); err != nil || reason != store.LeaseSuperseded {
			w.t.Errorf("old process's ReleaseLease = %v, %v; want LeaseSuperseded", reason, err)
		}
		w.renew(next, longTTL, store.Applied)
	}},
	{"HasOneWinner", func(w *world) {
		var won atomic.Int32
		together(50, func(int) {
			r, err := w.s.AcquireLease(w.ctx(), "node-a", randomHex(), longTTL)
			switch {
			case err != nil:
				w.t.Error(err)
			case r.Reason == store.Applied:
				won.Add(1)
			case r.Reason != store.LeaseHeld:
				w.t.Errorf("a loser got %v", r.Reason)
			}
		})
		if won.Load() != 1 {
			w.t.Errorf("%d processes of 50 won the lease", won.Load())
		}
	}},
	{"TimeLeftFallsByTheStoresClock", func(w *world) {
		p := w.server("node-a")
		before, _ := w.node("node-a")
		w.until("the lease to have less left", func() bool {
			now, _ := w.node("node-a")
			return now.LeaseLeft < before.LeaseLeft
		})
		w.renew(p.Lease, 2*longTTL, store.Applied)
		if after, _ := w.node("node-a"); after.LeaseLeft <= longTTL || after.LeaseLeft > 2*longTTL {
			w.t.Errorf("%v left after a renewal for %v", after.LeaseLeft, 2*longTTL)
		}
		w.expire(p)
		if d, found := w.node("node-a"); !found || d.LeaseLeft != 0 {
			w.t.Errorf("node listed: %v, with %v left after the lease's end; want it listed with 0", found, d.LeaseLeft)
		}
	}},
	{"SubMillisecondTTLIsInvalid", func(w *world) {
		w.wantInvalid(func() error {
			_, err := w.s.AcquireLease(w.ctx(), "node-a", randomHex(), time.Microsecond)
			return err
		})
	}},
}
