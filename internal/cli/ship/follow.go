package ship

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/deployment"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// takeOverEvery is the interval at which a watching ship tries to lock the log, which works once its holder has
// ended.
const takeOverEvery = time.Second

// logWorker does the work of a log in this process.
type logWorker interface {
	// Lock takes the log. The error is a *lifecycle.Held while another process has it.
	Lock() (unlock func() error, err error)
	// Roles returns the roles that a deployment needs; promotes reports that it has a stage with an environment. The log
	// must be locked.
	Roles(ctx context.Context, promotes bool) ([]lifecycle.Role, error)
}

// sessionWorker is the logWorker of an embedded log.
type sessionWorker struct {
	session *assembly.Session
	lock    *lifecycle.HomeLock
}

func (w *sessionWorker) Lock() (unlock func() error, err error) {
	lock, err := lifecycle.Lock(w.session.Home.Dir)
	if err != nil {
		return nil, err
	}
	w.lock = lock
	return lock.Unlock, nil
}

func (w *sessionWorker) Roles(ctx context.Context, promotes bool) ([]lifecycle.Role, error) {
	names := []string{assembly.RoleConductor, assembly.RoleDeployer}
	if promotes {
		names = append([]string{assembly.RolePromoter}, names...)
	}
	roles, err := w.session.Roles(ctx, assembly.RoleOptions{}, names...)
	return append([]lifecycle.Role{{Name: "lock", Run: w.lock.Keep}}, roles...), err
}

// drive takes a deployment to its end, and a rollback that undoes it: it does the work where this process may, else
// it watches. It returns the rollback, if there is one, and keeps the deployment that it undoes.
func (s *shipment) drive(ctx context.Context, ref service.Ref) (service.DeploymentView, error) {
	v, err := operation.GetDeployment.Call(ctx, s.Log, operation.PathOf(ref))
	if err == nil && v.State.RolledBackBy != 0 {
		undone := v
		s.undone = &undone
		v, err = operation.GetDeployment.Call(ctx, s.Log, operation.PathOf(rollbackOf(undone)))
	}
	if err != nil || v.State.Status != pipeline.StatusActive {
		return v, err
	}
	s.promotes = slices.ContainsFunc(v.Stages, func(stage service.StageRun) bool { return stage.Kind == pipeline.EnvironmentStage })
	w, err := s.watcher(ctx, v)
	if err != nil {
		return v, err
	}
	if s.Worker == nil {
		if s.idle = s.Idle(ctx); s.idle {
			s.Out.Warn("waybill: no process works on this log now, so %s waits: %s", ref, startWorking)
		}
		return s.watch(ctx, w)
	}
	unlock, err := s.Worker.Lock()
	if held, ok := errors.AsType[*lifecycle.Held](err); ok {
		s.Out.Note("pid %d holds the log; watching", held.PID)
		if held.Silent() {
			s.Out.Warn("waybill: pid %d has not been heard from since %s: waybill status says what to do", held.PID,
				held.Heard.Local().Format("15:04:05"))
		}
		return s.watchOrTakeOver(ctx, w)
	}
	if err != nil {
		return v, err
	}
	return s.work(ctx, w, unlock)
}

// startWorking names the commands that work on a log.
const startWorking = "start waybill up or waybill serve"

// leaveShip explains how to leave ship while the deployment waits for a person.
const leaveShip = "Ctrl-C, and waybill ship resumes it; --timeout sets a limit, --detach waits for nothing"

// watcher prints a deployment's first line and returns a watcher that prints the rest: for programs from
// the deployment's first entry on, for people after the newest.
func (s *shipment) watcher(ctx context.Context, v service.DeploymentView) (*deployment.Watcher, error) {
	s.Out.Note("%s", show.Header(v, s.Out.Style))
	w := deployment.NewWatcher(s.Log, s.Out, v, leaveShip)
	w.Enough = reached
	if s.Out.JSON {
		return w, nil
	}
	return w, w.Skip(ctx, v.Seq)
}

// watch shows a deployment to its end, then the rollback that undoes it, if there is one.
func (s *shipment) watch(ctx context.Context, w *deployment.Watcher) (service.DeploymentView, error) {
	v, err := w.Run(ctx)
	if err != nil || v.State.RolledBackBy == 0 {
		return v, err
	}
	s.undone = &v
	back, err := operation.GetDeployment.Call(ctx, s.Log, operation.PathOf(rollbackOf(v)))
	if err != nil {
		return back, err
	}
	w, err = s.watcher(ctx, back)
	if err != nil {
		return back, err
	}
	return w.Run(ctx)
}

// rollbackOf returns the deployment that undoes another.
func rollbackOf(undone service.DeploymentView) service.Ref {
	return service.Ref{Pipeline: undone.Pipeline, Number: undone.State.RolledBackBy}
}

// work runs the roles in this process until its end has been seen.
func (s *shipment) work(ctx context.Context, w *deployment.Watcher, unlock func() error) (v service.DeploymentView, err error) {
	defer func() { err = errors.Join(err, unlock()) }()
	s.works = true
	roles, err := s.Worker.Roles(ctx, s.promotes)
	if err != nil {
		return v, err
	}
	seen := false
	watching := lifecycle.Role{Name: "watch", Run: func(ctx context.Context) (err error) {
		v, err = s.watch(ctx, w)
		seen = err == nil
		return err
	}}
	err = lifecycle.Run(ctx, append(roles, watching)...)
	switch {
	case cmdline.Interrupted(ctx):
		return v, context.Cause(ctx)
	case err == nil && !seen:
		return v, fault.New(fault.Internal, "the work on %s stopped without an error", w.Ref)
	}
	return v, err
}

// watchOrTakeOver watches another process's work. When that process ends, this one continues the work.
func (s *shipment) watchOrTakeOver(ctx context.Context, w *deployment.Watcher) (service.DeploymentView, error) {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	taken := make(chan func() error, 1)
	go func() {
		defer close(taken)
		for watching.Err() == nil {
			if unlock, err := s.Worker.Lock(); err == nil {
				taken <- unlock
				stop(errTakeOver)
				return
			}
			loop.Pause(watching, takeOverEvery)
		}
	}()
	v, err := s.watch(watching, w)
	stop(nil)
	unlock := <-taken
	switch {
	case unlock != nil && errors.Is(err, errTakeOver):
		s.Out.Note("the process that held the log is gone; continuing here")
		return s.work(ctx, w, unlock) // with the same display: it knows the printed part
	case unlock != nil:
		return v, errors.Join(err, unlock())
	}
	return v, err
}

// errTakeOver ends the watching of a log whose holder is gone.
var errTakeOver = errors.New("the log is free")
