package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// takeOverEvery is how often a watching ship looks whether the process that holds the log has gone.
const takeOverEvery = time.Second

// follow takes a deployment to its end: it does the work where this process may, else it watches.
func (s *shipment) drive(ctx context.Context, ref server.Ref) (server.DeploymentView, error) {
	v, err := s.Deployment(ctx, ref)
	if err != nil || v.State.Status != pipeline.StatusActive {
		return v, err
	}
	s.printer().Note("%s", show.Header(v, s.printer().Style))
	w, err := s.watcher(ctx, s.Session, v, s.since(v))
	if err != nil {
		return v, err
	}
	w.enough = reached
	if s.Kind != assembly.Embedded {
		return w.run(ctx)
	}
	lock, err := lifecycle.Lock(s.Home.Dir)
	if held, ok := errors.AsType[*lifecycle.Held](err); ok {
		s.printer().Note("pid %d holds the log; watching", held.PID)
		return s.watchOrTakeOver(ctx, w)
	}
	if err != nil {
		return v, err
	}
	return s.work(ctx, w, lock)
}

// since is where the entries that are shown begin: at the deployment's start for programs, at now for people.
func (s *shipment) since(v server.DeploymentView) int64 {
	if s.json() {
		return 0
	}
	return v.Seq
}

// work runs the roles in this process until the watcher has seen the deployment's end.
func (s *shipment) work(ctx context.Context, w *watcher, lock *lifecycle.HomeLock) (v server.DeploymentView, err error) {
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	s.works = true
	roles, err := s.Roles(ctx, assembly.RoleOptions{}, assembly.RoleConductor, assembly.RoleDeployer)
	if err != nil {
		return v, err
	}
	seen := false
	watching := lifecycle.Role{Name: "watch", Run: func(ctx context.Context) (err error) {
		v, err = w.run(ctx)
		seen = err == nil
		return err
	}}
	err = lifecycle.Run(ctx, append(roles, watching)...)
	switch {
	case interrupted(ctx):
		return v, context.Cause(ctx)
	case err == nil && !seen:
		return v, fault.New(fault.Internal, "the work on %s stopped without an error", w.ref)
	}
	return v, err
}

// watchOrTakeOver watches another process's work; when that process goes away, this one goes on with it.
func (s *shipment) watchOrTakeOver(ctx context.Context, w *watcher) (server.DeploymentView, error) {
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	taken := make(chan *lifecycle.HomeLock, 1)
	go func() {
		defer close(taken)
		for watching.Err() == nil {
			if lock, err := lifecycle.Lock(s.Home.Dir); err == nil {
				taken <- lock
				stop(errTakeOver)
				return
			}
			pause(watching, takeOverEvery)
		}
	}()
	v, err := w.run(watching)
	stop(nil)
	lock := <-taken
	switch {
	case lock != nil && errors.Is(err, errTakeOver):
		s.printer().Note("the process that held the log is gone; going on here")
		return s.work(ctx, w, lock) // with the same display: it knows what was told
	case lock != nil:
		return v, errors.Join(err, lock.Unlock())
	}
	return v, err
}

// errTakeOver ends the watching of a log whose holder is gone.
var errTakeOver = errors.New("the log is free")

// detached says who does the work of a deployment that nobody watches.
func (s *shipment) detached(ctx context.Context, ref server.Ref) error {
	if s.json() {
		v, err := s.Deployment(ctx, ref)
		if err != nil {
			return err
		}
		return s.printer().Line(v.Deployment)
	}
	fmt.Fprintf(s.out, "%s  revision %s  registered\n", ref, s.tree.Label)
	s.app.warnIfIdle(ctx, s.Session)
	return nil
}
