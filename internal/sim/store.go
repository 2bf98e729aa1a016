package sim

import (
	"context"
	"time"

	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/storetest/model"
)

// faultyStore is the model, and what lies between it and the processes.
type faultyStore struct {
	*model.Store
	away  time.Duration // until then nobody reaches it
	ahead time.Duration // of virtual time, by jumps
	jumps int
	drift int64 // millionths
}

// background is for calls of the model, which never wait.
var background = context.Background()

// dawn is when the Store's clock began.
var dawn = time.Unix(1_700_000_000, 0)

func (w *World) newStore() {
	w.store.Store = model.New(model.Options{RecoveryHold: w.hold, Now: w.storeTime})
	w.store.drift = w.drawDrift()
}

func (w *World) storeTime() time.Time { return dawn.Add(drifted(w.now, w.store.drift) + w.store.ahead) }

// A clock that goes wrong by some millionths, and the earliest moment at which it shows d.
func drifted(t time.Duration, ppm int64) time.Duration {
	return t + t/1e6*time.Duration(ppm) + t%1e6*time.Duration(ppm)/1e6
}

func undrifted(d time.Duration, ppm int64) time.Duration {
	t := drifted(d, -ppm)
	for drifted(t, ppm) < d {
		t += max((d-drifted(t, ppm))/2, 1)
	}
	return t
}

func (w *World) drawDrift() int64 {
	if w.Drift == 0 {
		return 0
	}
	return [...]int64{0, 100, -100, 10_000, -10_000}[w.choose(5)]
}

// storeWay is how long a request or an answer is under way.
func (w *World) storeWay() time.Duration {
	if w.chance(w.SlowStore) {
		return [...]time.Duration{20, 120, 700, 2_500}[w.choose(4)] * time.Millisecond
	}
	return [...]time.Duration{100, 200, 300, 900}[w.choose(4)] * time.Microsecond
}

// asking is one call of the Store: what it is, and how long it is waited for.
type asking struct {
	name    string
	by      *machine // nil: none of the protocol's
	timeout time.Duration
}

// ask makes one call of the Store for a process. It is applied when the request arrives,
// whether or not the process lives by then; done gets the answer, or an error that says
// whether it may have been applied.
func ask[T any](p *process, a asking, call func() (T, error), done func(T, error)) {
	var none T
	w := p.w
	there, back, limit := w.storeWay(), w.storeWay(), undrifted(a.timeout, p.drift)
	hit := func(fault string) {
		w.Cover.Mark(fault)
		if a.by != nil {
			w.Cover.Hit(a.by.doing, fault)
		}
	}
	lose := func(after time.Duration, fault string) {
		hit(fault)
		w.post(min(after, limit), p, func() {
			w.note(p, a.name, "", fault, 0)
			done(none, store.ErrUnknown)
		})
	}
	arrive := func(after time.Duration, answer func(T, error)) {
		w.post(after, nil, func() {
			t, err := call()
			answer(t, err)
		})
	}
	nobody := func(T, error) {}
	forced := ""
	if a.by != nil {
		forced, w.forced = w.forced, ""
	}
	switch {
	case forced == "refused":
		hit(forced)
		w.post(there, p, func() { done(none, store.ErrUnavailable) })
	case forced == "lost request":
		lose(there+back, forced)
	case forced == "late request":
		lose(there, forced)
		arrive(3*time.Second, nobody)
	case forced == "lost answer":
		lose(there+back, forced)
		arrive(there, nobody)
	case w.now < w.store.away || w.chance(w.Refuse):
		hit("refused")
		w.post(min(there, limit), p, func() { done(none, store.ErrUnavailable) })
	case w.chance(w.LoseRequest):
		lose(there+back, "lost request")
	case w.chance(w.Late):
		lose(there, "late request")
		arrive(there+back+w.choosePause(), nobody)
	case w.chance(w.LoseAnswer), there+back > limit:
		lose(there+back, "lost answer")
		arrive(there, nobody)
	default:
		arrive(there, func(t T, err error) { w.post(back, p, func() { done(t, err) }) })
	}
}
