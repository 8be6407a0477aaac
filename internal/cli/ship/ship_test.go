package ship

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// shipping returns the options of a ship of revision r1 on a fake log, and the output.
func shipping(f *clitest.Log, json bool) (shipOptions, *clitest.Output) {
	o := clitest.NewOutput(json)
	return shipOptions{
		Log:   f,
		Flags: shipFlags{detach: true}, Pipeline: "greeter", Proposal: service.Proposal{Definition: pipeline.Definition{Pipeline: "greeter"}},
		By: "ana", Warn: func() {}, Label: "r1", Commit: git.Commit{Hash: "c1", Subject: "Greet", At: clitest.Noon()},
		Precedes: func(context.Context, string, string) bool { return false },
		Pack:     func(_ context.Context, w io.Writer) error { _, err := io.WriteString(w, "files"); return err },
		Idle:     clitest.Busy, Ask: func(context.Context, string) bool { return false },
		Retry: func(_ context.Context, _ service.Ref, failed error) (bool, error) { return false, failed },
		Out:   o.Printer, Now: clitest.Noon,
	}, o
}

func TestShipRegistersARevisionThatIsNew(t *testing.T) {
	t.Parallel()
	f := &clitest.Log{Edit: service.EditView{Pipeline: "greeter", Version: 1},
		Views: clitest.Seen(clitest.Deployed(1, 1, pipeline.StatusActive))}
	options, o := shipping(f, clitest.AsText)
	options.Idle = clitest.Idle
	warned := 0
	options.Warn = func() { warned++ }
	if err := runShip(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Revision greeter r1", "Revisions greeter 50", "PlanEdit greeter", "Apply greeter 0 true", "PutSnapshot greeter r1",
		"Register r1 sha256/r1 true", "Deployment greeter#1")
	o.Want(t, "greeter#1  revision r1  registered\n", clitest.IdleWarning)
	if f.Files != "files" || warned != 1 {
		t.Errorf("stored %q, warned %d times", f.Files, warned)
	}
}

func TestShipRegistersWithItsBound(t *testing.T) {
	t.Parallel()
	at := clitest.Deployed(1, 1, pipeline.StatusActive)
	f := &clitest.Log{Edit: service.EditView{Unchanged: true}, Views: clitest.Seen(at)}
	options, o := shipping(f, clitest.AsJSON)
	options.Flags.until = "beta"
	if err := runShip(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	f.WantCalls(t, "Revision greeter r1", "Revisions greeter 50", "PlanEdit greeter", "PutSnapshot greeter r1",
		"Register r1 sha256/r1 true beta",
		"Deployment greeter#1", "Command greeter#1 until beta", "Deployment greeter#1")
	clitest.WantValue(t, o, at)
}

func TestShipRefusesAnOlderRevision(t *testing.T) {
	t.Parallel()
	f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Label: "r3", Commit: "c3"},
		{Pipeline: "greeter", Label: "r2", Commit: "c3"}}, Edit: service.EditView{Unchanged: true},
		Views: clitest.Seen(clitest.Deployed(1, 1, pipeline.StatusActive))}
	options, _ := shipping(f, clitest.AsText)
	asked := 0
	options.Precedes = func(_ context.Context, older, newer string) bool { asked++; return older == "c1" && newer == "c3" }
	clitest.WantFault(t, runShip(t.Context(), options), fault.Refused,
		"r1 is older than r3, which is registered in greeter", "waybill ship --older, if the older one is what should run")
	if asked != 1 {
		t.Errorf("git was asked %d times about one commit", asked)
	}
	options.Precedes = func(context.Context, string, string) bool { asked++; return false }
	if err := runShip(t.Context(), options); err != nil || asked != 2 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	options.Precedes = func(context.Context, string, string) bool { return true }
	options.Flags.older = true
	if err := runShip(t.Context(), options); err != nil {
		t.Errorf("--older: %v", err)
	}
}

func TestShipOfARegisteredRevision(t *testing.T) {
	t.Parallel()
	r1 := pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 1, Label: "r1"}
	r2 := pipeline.RegisteredRevision{Pipeline: "greeter", Seq: 2, Label: "r2"}
	for name, c := range map[string]struct {
		flags       shipFlags
		deployments []journal.Deployment
		drift       []service.Drift
		out         string
		code        fault.Code
		text        string // text of the error
		last        string // the last call
	}{
		"never deployed": {deployments: nil, out: "greeter#9  revision r1  registered\n", last: "Deployment greeter#9"},
		"active": {deployments: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusActive)},
			out: "greeter#2 is in progress: 0 of 0 steps done; resuming it\ngreeter#2  revision r1  registered\n", last: "Deployment greeter#2"},
		"finished": {deployments: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFinished)},
			out: "nothing to do: r1 finished as greeter#2, 1 minute ago\n", last: "Pipeline greeter"},
		"finished with drift": {deployments: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFinished)},
			drift: []service.Drift{{Target: "greeter/prod/all/elm", Reason: "has no release yet"}},
			out: "nothing to do: r1 finished as greeter#2, 1 minute ago\n" +
				"but prod/all/elm has no release yet: waybill ship --again deploys to it once more\n", last: "Pipeline greeter"},
		"finished, again": {flags: shipFlags{again: true}, deployments: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFinished)},
			out: "greeter#9  revision r1  registered\n", last: "Deployment greeter#9"},
		"replaced": {deployments: []journal.Deployment{clitest.Deployed(3, 2, pipeline.StatusFinished),
			clitest.Deployed(2, 1, pipeline.StatusFinished)},
			code: fault.Canceled, text: "r1 finished as greeter#2; greeter#3 has replaced it by r2 since", last: "Deployment greeter#2"},
		"canceled": {deployments: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusCanceled)},
			code: fault.Canceled, text: "greeter#2 (r1) was canceled", last: "Deployment greeter#2"},
		"failed": {deployments: []journal.Deployment{clitest.Deployed(2, 1, pipeline.StatusFailed)},
			out: "greeter#2  revision r1  registered\n", last: "Deployment greeter#2"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{r2, r1}, Recent: c.deployments, Snapshot: service.SnapshotView{Stored: true},
				Pipelines: []service.PipelineView{{Name: "greeter", Drift: c.drift}},
				Views:     clitest.Seen(append(c.deployments, clitest.Deployed(9, 1, pipeline.StatusActive))...)}
			options, o := shipping(f, clitest.AsText)
			c.flags.detach = true
			options.Flags = c.flags
			err := runShip(t.Context(), options)
			if c.code != "" {
				clitest.WantFault(t, err, c.code, c.text, "")
			} else if err != nil {
				t.Fatal(err)
			}
			o.Want(t, c.out, "")
			if last := f.Calls[len(f.Calls)-1]; last != c.last {
				t.Errorf("the last call is %q, want %q of %q", last, c.last, f.Calls)
			}
		})
	}
}

func TestShipLeavesADeploymentThatWaitsLongerThanItsLimit(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		active := clitest.Deployed(2, 1, pipeline.StatusActive)
		views := clitest.Seen(active)
		waits := views["greeter#2"]
		waits.Stages = []service.StageRun{{Name: "prod",
			Run: service.Run{State: service.RunWaiting, Reason: "approval 0 of 1", Who: "waybill approve greeter prod --revision r1"}}}
		views["greeter#2"] = waits
		f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
			Edit:     service.EditView{Unchanged: true},
			Snapshot: service.SnapshotView{Stored: true}, Recent: []journal.Deployment{active}, Views: views}
		options, o := shipping(f, clitest.AsText)
		options.Flags.detach, options.Idle = false, clitest.Idle
		err := cmdline.Within(t.Context(), time.Hour, func(ctx context.Context) error { return runShip(ctx, options) })
		clitest.WantFault(t, err, fault.TimedOut,
			"greeter#2 has not finished: the limit of --timeout 1h0m0s has passed; it stays active, waiting: approval 0 of 1",
			"waybill approve greeter prod --revision r1, then waybill ship")
		if cmdline.ExitStatus(err) != fault.ExitTimedOut {
			t.Errorf("exit status %d", cmdline.ExitStatus(err))
		}
		if want := "waybill: no process works on this log now, so greeter#2 waits: start waybill up or " +
			"waybill serve\n"; !strings.Contains(o.Warned.String(), want) {
			t.Errorf("%q has no %q", o.Warned.String(), want)
		}
	})
}

func TestShipDeploysAgainWhenThePersonSaysSo(t *testing.T) {
	t.Parallel()
	finished := clitest.Deployed(2, 1, pipeline.StatusFinished)
	f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
		Edit: service.EditView{Unchanged: true}, Snapshot: service.SnapshotView{Stored: true},
		Recent: []journal.Deployment{finished}, Views: clitest.Seen(finished, clitest.Deployed(9, 1, pipeline.StatusFinished)),
		Pipelines: []service.PipelineView{{Name: "greeter",
			Hosts: []service.HostView{{Target: "greeter/prod/all/elm", Service: &service.Services{State: service.ServiceDown}}}}}}
	options, o := shipping(f, clitest.AsText)
	options.Flags.detach = false
	var question string
	options.Ask = func(_ context.Context, q string) bool { question = q; return true }
	if err := runShip(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if question != "deploy it again now?" || !strings.Contains(o.Printed.String(),
		"but the service on prod/all/elm is down: waybill ship --again starts it\n") || !strings.HasSuffix(o.Printed.String(), "  59m00s\n") {
		t.Errorf("asked %q, printed %q", question, o.Printed.String())
	}
	if !strings.Contains(strings.Join(f.Calls, "\n"), "Deploy greeter r1") {
		t.Errorf("calls %q", f.Calls)
	}
}

func TestShipStoresFilesThatTheBlobStoreLost(t *testing.T) {
	t.Parallel()
	active := clitest.Deployed(2, 1, pipeline.StatusActive)
	f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
		Edit:     service.EditView{Unchanged: true},
		Snapshot: service.SnapshotView{Key: "sha256/r1"}, Recent: []journal.Deployment{active}, Views: clitest.Seen(active)}
	options, o := shipping(f, clitest.AsText)
	if err := runShip(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if f.Files != "files" || !strings.HasPrefix(o.Printed.String(), "stored the files of r1 again: the blob store did not have them\n") {
		t.Errorf("stored %q, printed %q", f.Files, o.Printed.String())
	}
}

func TestStoreSnapshotReportsTheSideThatFailed(t *testing.T) {
	t.Parallel()
	broken := errors.New("a file vanished")
	for name, c := range map[string]struct {
		store *clitest.Log
		pack  func(context.Context, io.Writer) error
		want  error
	}{
		"packing": {&clitest.Log{}, func(context.Context, io.Writer) error { return broken }, broken},
		"storing": {&clitest.Log{Err: clitest.ErrAway},
			func(_ context.Context, w io.Writer) error { _, err := w.Write([]byte("files")); return err }, clitest.ErrAway},
		"the both": {&clitest.Log{Err: clitest.ErrAway}, func(context.Context, io.Writer) error { return broken }, broken},
	} {
		if _, err := storeSnapshot(t.Context(), c.store, labelPath("greeter", "r1"), c.pack); !errors.Is(err, c.want) ||
			!strings.HasPrefix(err.Error(), "store the files of r1: ") {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// fakeWorker is the worker of a log that another process holds at first.
type fakeWorker struct {
	held     int // how many attempts to lock fail
	err      error
	locked   chan struct{}
	unlocked int
	promotes bool // the roles were made for a deployment that promotes
}

func (w *fakeWorker) Lock() (func() error, error) {
	if w.err != nil {
		return nil, w.err
	}
	if w.held > 0 {
		w.held--
		return nil, &lifecycle.Held{PID: 42}
	}
	if w.locked != nil {
		close(w.locked)
	}
	return func() error { w.unlocked++; return nil }, nil
}

func (w *fakeWorker) Roles(_ context.Context, promotes bool) ([]lifecycle.Role, error) {
	w.promotes = promotes
	return []lifecycle.Role{{Name: "deployer", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }}}, nil
}

func TestShipDoesTheWorkItself(t *testing.T) {
	t.Parallel()
	active, finished := clitest.Deployed(2, 1, pipeline.StatusActive), clitest.Deployed(2, 1, pipeline.StatusFinished)
	f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
		Edit: service.EditView{Unchanged: true}, Snapshot: service.SnapshotView{Stored: true},
		Recent: []journal.Deployment{active}, Views: clitest.Seen(active)}
	log := clitest.NewEnding(f, 5, clitest.Seen(finished)["greeter#2"])
	options, o := shipping(f, clitest.AsText)
	worker := &fakeWorker{}
	options.Flags.detach, options.Log, options.Worker = false, log, worker
	if err := runShip(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	if worker.unlocked != 1 {
		t.Errorf("unlocked %d times", worker.unlocked)
	}
	if want := "greeter#2 is in progress: 0 of 0 steps done; resuming it\ngreeter#2  revision r1  definition 1\n" +
		"finished: r1"; !strings.HasPrefix(o.Printed.String(), want) {
		t.Errorf("printed %q", o.Printed.String())
	}
}

func TestShipTakesOverFromAProcessThatEnds(t *testing.T) {
	t.Parallel()
	active, finished := clitest.Deployed(2, 1, pipeline.StatusActive), clitest.Deployed(2, 1, pipeline.StatusFinished)
	f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
		Edit: service.EditView{Unchanged: true}, Snapshot: service.SnapshotView{Stored: true},
		Recent: []journal.Deployment{active}, Views: clitest.Seen(active)}
	locked := make(chan struct{})
	log := &lockedEnding{Log: f, locked: locked, after: clitest.Seen(finished)["greeter#2"]}
	f.Read = log.Deployment
	options, o := shipping(f, clitest.AsText)
	worker := &fakeWorker{held: 1, locked: locked}
	options.Flags.detach, options.Log, options.Worker = false, log, worker
	if err := runShip(t.Context(), options); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"pid 42 holds the log; watching\n",
		"the process that held the log is gone; continuing here\n", "finished: r1"} {
		if !strings.Contains(o.Printed.String(), line) {
			t.Errorf("printed %q, want %q in it", o.Printed.String(), line)
		}
	}
	if worker.unlocked != 1 {
		t.Errorf("unlocked %d times", worker.unlocked)
	}
}

// lockedEnding is a fake whose deployment has ended once this process has the lock.
type lockedEnding struct {
	*clitest.Log
	locked <-chan struct{}
	after  service.DeploymentView
	seen   bool
}

func (e *lockedEnding) Deployment(ctx context.Context, ref service.Ref) (service.DeploymentView, error) {
	select {
	case <-e.locked:
		if e.seen {
			return e.after, nil
		}
		e.seen = true // the roles begin first
	default:
	}
	return e.Log.Deployment(ctx, ref)
}

func TestShipReportsALockThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	active := clitest.Deployed(2, 1, pipeline.StatusActive)
	f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
		Edit: service.EditView{Unchanged: true}, Snapshot: service.SnapshotView{Stored: true},
		Recent: []journal.Deployment{active}, Views: clitest.Seen(active)}
	options, _ := shipping(f, clitest.AsText)
	broken := errors.New("read-only file system")
	options.Flags.detach, options.Worker = false, &fakeWorker{err: broken}
	if err := runShip(t.Context(), options); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestShipReportsWhatASignalLeaves(t *testing.T) {
	t.Parallel()
	ref := service.Ref{Pipeline: "greeter", Number: 2}
	held := service.DeploymentView{State: pipeline.DeploymentState{Held: "by ana", Resume: "waybill deployment resume greeter#2"}}
	for name, c := range map[string]struct {
		view  service.DeploymentView
		works bool
		idle  bool
		want  string
	}{
		"held": {held, true, false, "waybill: terminated; greeter#2 stays active and held by ana: waybill deployment resume greeter#2\n"},
		"worked": {service.DeploymentView{}, true, false,
			"waybill: terminated; greeter#2 stays active, and what ran here was handed back: waybill ship resumes it\n"},
		"idle": {service.DeploymentView{}, false, true,
			"waybill: terminated; greeter#2 stays active until a process works on the log: start waybill up or waybill serve\n"},
		"watched": {service.DeploymentView{}, false, false,
			"waybill: terminated; the processes that work on the log continue greeter#2: waybill deployment watch greeter#2\n"},
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		stop(fault.Wrap(fault.Interrupted, lifecycle.ErrTerminated))
		options, o := shipping(&clitest.Log{}, clitest.AsText)
		s := &shipment{shipOptions: options, works: c.works, idle: c.idle}
		if err := s.reportInterrupted(ctx, ref, c.view, context.Cause(ctx)); !errors.Is(err, lifecycle.ErrTerminated) {
			t.Errorf("%s: %v", name, err)
		}
		o.Want(t, "", strings.ReplaceAll(c.want, "terminated", lifecycle.ErrTerminated.Error()))
	}
	options, o := shipping(&clitest.Log{}, clitest.AsText)
	if err := (&shipment{shipOptions: options}).reportInterrupted(t.Context(), ref, held,
		clitest.ErrAway); !errors.Is(err, clitest.ErrAway) || o.Warned.Len() > 0 {
		t.Errorf("without a signal: %v, %q", err, o.Warned.String())
	}
}

func TestCheckUntil(t *testing.T) {
	t.Parallel()
	d := pipeline.Definition{Pipeline: "greeter", Stages: []pipeline.Stage{{Name: "beta"}, {Name: "prod"}}}
	for _, until := range []string{"", "beta", "prod"} {
		if err := checkUntil(d, until); err != nil {
			t.Errorf("%q: %v", until, err)
		}
	}
	clitest.WantFault(t, checkUntil(d, "pord"), fault.Invalid, `stage "pord" not found in greeter`, "stages: beta, prod")
}

func TestReached(t *testing.T) {
	t.Parallel()
	v := service.DeploymentView{State: pipeline.DeploymentState{Until: "beta"}, Stages: []service.StageRun{{Name: "beta",
		Run: service.Run{State: service.RunRunning}}, {Name: "prod", Run: service.Run{State: service.RunFinished}}}}
	if reached(v) {
		t.Error("reached while beta runs")
	}
	v.Stages[0].State = service.RunFinished
	if !reached(v) {
		t.Error("not reached when beta has finished")
	}
	v.State.Until = ""
	if reached(v) {
		t.Error("a deployment without a bound has reached it")
	}
}

// A deployment with an environment needs the role promoter; others do not reach the clusters of server.yaml.
func TestShipPromotesToEnvironments(t *testing.T) {
	t.Parallel()
	for kind, want := range map[pipeline.StageKind]bool{pipeline.EnvironmentStage: true, pipeline.HostStage: false} {
		active, finished := clitest.Deployed(2, 1, pipeline.StatusActive), clitest.Deployed(2, 1, pipeline.StatusFinished)
		views := clitest.Seen(active)
		view := views["greeter#2"]
		view.Stages = []service.StageRun{{Name: "prod", Kind: kind}}
		views["greeter#2"] = view
		f := &clitest.Log{Revisions: []pipeline.RegisteredRevision{{Pipeline: "greeter", Seq: 1, Label: "r1"}},
			Edit: service.EditView{Unchanged: true}, Snapshot: service.SnapshotView{Stored: true},
			Recent: []journal.Deployment{active}, Views: views}
		options, _ := shipping(f, clitest.AsText)
		worker := &fakeWorker{}
		options.Flags.detach, options.Log, options.Worker = false, clitest.NewEnding(f, 5, clitest.Seen(finished)["greeter#2"]), worker
		if err := runShip(t.Context(), options); err != nil {
			t.Fatal(err)
		}
		if worker.promotes != want {
			t.Errorf("stage of kind %v: the roles promote: %v", kind, worker.promotes)
		}
	}
}
