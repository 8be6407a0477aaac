package servertest

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// Aging is a world in a bubble of virtual time (testing/synctest) whose database has a clock of its own. Its pipeline greeter
// archives deployments when they are a day old.
type Aging struct {
	*World
	ahead *atomic.Int64 // lead of the database's clock
}

// StartAging runs such a world in a folder until the test ends. The folder is then a home.
func StartAging(t testing.TB, dir string) Aging {
	t.Helper()
	a := Aging{ahead: new(atomic.Int64)}
	clock := func() time.Time { return time.Now().Add(time.Duration(a.ahead.Load())) }
	driver, err := sqlite.Open(t.Context(), filepath.Join(dir, "waybill.db"), sqlite.WithClock(clock))
	if err != nil {
		t.Fatal(err)
	}
	a.World = On(t, ledger.New(driver, ledger.Options{}), dir)
	a.Apply(t, Definition+"keep: {entries: 1d}\n")
	return a
}

// Grow ships revisions through the pipeline, one after the other, and has two days pass in the database. Then it waits until
// the first deployment is archived. Those of the newest five revisions stay.
func (a Aging) Grow(t testing.TB, labels ...string) {
	t.Helper()
	for _, label := range labels {
		a.Until(t, a.Ship(t, "greeter", label), "ends", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusFinished })
	}
	a.ahead.Add(int64(48 * time.Hour))
	for range 30 {
		d, err := a.Ledger.Deployment(t.Context(), "greeter", 1)
		if err != nil {
			t.Fatal(err)
		}
		if d.Archive != "" {
			return
		}
		<-time.After(time.Minute)
	}
	t.Fatal("a deployment that ended two days ago is not archived within half an hour")
}
