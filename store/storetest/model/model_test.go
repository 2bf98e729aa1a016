package model_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/zlnode/zlnode/store"
	"github.com/zlnode/zlnode/store/storetest"
	"github.com/zlnode/zlnode/store/storetest/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestModelConforms(t *testing.T) {
	storetest.Run(t, func(*testing.T) store.Store { return model.New(model.Options{Now: time.Now}) })
}

func TestModelRunsTheScripts(t *testing.T) {
	storetest.RunScripts(t, "../testdata", func(_ *testing.T, hold time.Duration) storetest.Driver {
		return driver{model.New(model.Options{Now: time.Now, RecoveryHold: max(hold, 0)})}
	})
}

type driver struct{ *model.Store }

func (driver) Elapse() { storetest.Elapse(time.Now) }
