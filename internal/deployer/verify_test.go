package deployer_test

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// beside is a log with the rows that the database keeps beside it.
type beside struct {
	*fake
	kept []journal.Deployment
}

func (b *beside) Deployments(context.Context, journal.DeploymentQuery) ([]journal.Deployment, error) {
	return slices.Clone(b.kept), nil
}

func TestVerifyFindsWhatDoesNotAgree(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*beside)
		want  string // contained in the fault; "": none
	}{
		{"nothing", func(*beside) {}, ""},
		{"row lost", func(b *beside) { l := b.logs["greeter"]; l.entries = slices.Delete(l.entries, 20, 21) }, "entry 22 follows entry 20"},
		{"row of an unknown deployment", func(b *beside) { b.logs["greeter"].entries[20].Deployment = 9 }, "never created"},
		{"end lost", func(b *beside) { l := b.logs["greeter"]; l.entries = l.entries[:len(l.entries)-1] }, "the pipeline's head says"},
		{"end far away", func(b *beside) { b.logs["greeter"].Seq = math.MaxInt64 }, "the pipeline's head says"},
		{"fact twice", func(b *beside) {
			l := b.logs["greeter"]
			again := l.entries[slices.IndexFunc(l.entries, func(e pipeline.Entry) bool { return e.Class == pipeline.Fact })]
			l.add(again)
		}, "at entry"},
		{"row changed", func(b *beside) { b.logs["greeter"].entries[20].Detail = []byte(`{"by":"eve"}`) }, "entry 21 was changed"},
		{"version", func(b *beside) { b.logs["greeter"].Version = 2 }, "definition 1 is in force by the log, the pipeline's head says 2"},
		{"status", func(b *beside) { b.kept[0].Status = pipeline.StatusActive }, "deployment 1 is finished by the log, the database says active"},
		{"deployment lost", func(b *beside) { b.kept = nil }, "deployment 1 is in the log, but not in the database"},
		{"deployment too many", func(b *beside) { b.kept = append(b.kept, journal.Deployment{Number: 2}) },
			"deployment 2 is in the database, but not in the log"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := newFake()
				f.define(t, greeter("greeter"))
				_, stop := run(t, f)
				elapse(time.Second)
				f.create("greeter", 1)
				workUntilDone(t, f, "greeter")
				stop()
				b := &beside{f, []journal.Deployment{{Number: 1, Status: pipeline.StatusFinished}}}
				test.spoil(b)
				got, err := deployer.Verify(t.Context(), b, nil, "greeter")
				if err != nil {
					t.Fatal(err)
				}
				if test.want == "" && len(got.Faults) > 0 || test.want != "" && (len(got.Faults) == 0 || !strings.Contains(got.Faults[0], test.want)) {
					t.Errorf("faults %q, want %q", got.Faults, test.want)
				}
			})
		})
	}
}
