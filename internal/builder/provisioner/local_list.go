package provisioner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// mostWorkers bounds how many folders are looked at.
const mostWorkers = 100_000

// records reads the records of all workers. One that cannot be read is an error, after the rest.
func (l *Local) records() ([]record, error) {
	entries, err := os.ReadDir(l.Dir)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "list the workers: %w", err)
	}
	if len(entries) > mostWorkers {
		return nil, fault.New(fault.Unavailable, "list the workers: %s has more than %d entries", l.Dir, mostWorkers)
	}
	var all []record
	var errs []error
	for _, entry := range entries {
		buildID, ok := parseID(idPrefix + entry.Name())
		if !ok {
			continue
		}
		r, found, err := l.read(buildID)
		errs = append(errs, err)
		if found {
			all = append(all, r)
		}
	}
	return all, errors.Join(errs...)
}

// List returns the workers that were started and not removed.
func (l *Local) List(context.Context) ([]provisionerv1.Worker, error) {
	all, err := l.records()
	var workers []provisionerv1.Worker
	for _, r := range all {
		if w := l.worker(r); r.DeletedAt.IsZero() || w.Status != string(build.WorkerEnded) {
			workers = append(workers, w)
		}
	}
	return workers, err
}

// worker describes a worker as it is now.
func (l *Local) worker(r record) provisionerv1.Worker {
	id := workerID(r.BuildID)
	w := provisionerv1.Worker{WorkerID: id, Name: id, BuildID: r.BuildID, Project: r.Project, Instance: r.Instance, Key: r.Key,
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, DeletedAt: r.DeletedAt, Status: string(build.WorkerPending)}
	alive, err := r.Process.Alive()
	switch {
	case err != nil:
		w.Status, w.Reason = string(build.WorkerUnknown), err.Error()
	case !alive:
		w.Status, w.Reason = string(build.WorkerEnded), l.endOf(r)
	default:
		if reader, err := results.Open(filepath.Join(l.folder(r.BuildID), resultsDir)); err == nil {
			if served, err := reader.Worker(); err == nil && served.PID == r.Process.PID {
				w.Status, w.Address = string(build.WorkerRunning), l.reachable(served.Address)
			}
		}
	}
	return w
}

// endOf returns how a worker ended.
func (l *Local) endOf(r record) string {
	reader, err := results.Open(filepath.Join(l.folder(r.BuildID), resultsDir))
	if err == nil {
		final, err := reader.Final()
		switch {
		case err == nil && final != nil && reader.Taken():
			return fmt.Sprintf("the build is %s, and its results were taken", final.Status)
		case err == nil && final != nil:
			return fmt.Sprintf("the build is %s, and its results were not taken", final.Status)
		}
	}
	if text := errorText(filepath.Join(l.folder(r.BuildID), errorsFile)); text != "" {
		return "the process ended before the build did: " + text
	}
	return "the process ended before the build did"
}

// Delete asks the worker to end, once: a second SIGTERM would end it before its results are taken. Run removes it after its end.
func (l *Local) Delete(_ context.Context, workerID string, force bool) error {
	buildID, ok := parseID(workerID)
	if !ok {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r, found, err := l.read(buildID)
	if err != nil || !found {
		return err
	}
	defer loop.Poke(l.ended)
	asked := !r.DeletedAt.IsZero()
	if !asked {
		r.DeletedAt = time.Now().UTC()
		if err := l.write(r); err != nil { // before the signal: dying in between leaves the kill after the grace
			return err
		}
	}
	switch {
	case force:
		err = r.Process.Signal(syscall.SIGKILL)
	case !asked:
		err = r.Process.Signal(syscall.SIGTERM)
	}
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fault.New(fault.Unavailable, "end the worker of build %d: %w", buildID, err)
	}
	return nil
}

// Run kills deleted workers that did not end in time, and removes the leftovers of ended workers. It returns when ctx
// ends; the workers run on.
func (l *Local) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		l.runOnce(ctx, time.Now())
		pauseUntil(ctx, lookEvery, l.ended)
	}
	return nil
}

// runOnce looks at every worker.
func (l *Local) runOnce(ctx context.Context, now time.Time) {
	all, err := l.records()
	if err != nil {
		l.Log.Warn("workers cannot be looked at", obs.Error(err))
	}
	if err := l.sweep(now); err != nil {
		l.Log.Warn("folders without a worker cannot be removed", obs.Error(err))
	}
	for _, r := range all {
		if ctx.Err() != nil {
			return
		}
		if err := l.tidy(r.BuildID, now); err != nil {
			l.Log.Warn("worker cannot be ended or removed", obs.KeyBuildID, r.BuildID, obs.KeyWorkerID, workerID(r.BuildID), obs.Error(err))
		}
	}
}

// sweep removes old folders without a record: leftovers of a request that did not start a worker.
func (l *Local) sweep(now time.Time) error {
	entries, err := os.ReadDir(l.Dir)
	for _, entry := range entries {
		buildID, ok := parseID(idPrefix + entry.Name())
		if info, gone := entry.Info(); !ok || gone != nil || now.Sub(info.ModTime()) <= l.Keep {
			continue
		}
		l.mu.Lock()
		if _, found, unread := l.read(buildID); !found && unread == nil {
			err = errors.Join(err, os.RemoveAll(l.folder(buildID)))
		}
		l.mu.Unlock()
	}
	return err
}

// tidy kills or removes a worker if it is time.
func (l *Local) tidy(buildID int64, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r, found, err := l.read(buildID)
	if err != nil || !found {
		return err
	}
	alive, err := r.Process.Alive()
	deleted := !r.DeletedAt.IsZero()
	switch {
	case err != nil:
		return err
	case alive && deleted && now.Sub(r.DeletedAt) > l.Grace+killAfter:
		l.Log.Warn("worker killed: it did not end in time", obs.KeyBuildID, r.BuildID, obs.KeyWorkerID, workerID(r.BuildID),
			obs.KeyPID, r.Process.PID)
		return r.Process.Signal(syscall.SIGKILL)
	case alive:
		return nil
	case deleted && (l.taken(r) || !l.began(r)), now.Sub(l.lastUse(r)) > l.Keep:
		return l.remove(r)
	}
	return nil
}

// lastUse returns when something last happened to a worker.
func (l *Local) lastUse(r record) time.Time {
	at := r.CreatedAt
	for _, other := range []time.Time{r.StartedAt, r.DeletedAt} {
		if other.After(at) {
			at = other
		}
	}
	if info, err := os.Stat(filepath.Join(l.folder(r.BuildID), resultsDir)); err == nil && info.ModTime().After(at) {
		at = info.ModTime()
	}
	return at
}

// taken reports whether a reader has acknowledged everything.
func (l *Local) taken(r record) bool {
	reader, err := results.Open(filepath.Join(l.folder(r.BuildID), resultsDir))
	return err == nil && reader.Taken()
}

// remove removes the folder of a worker, the record last: an interrupted removal is repeated.
func (l *Local) remove(r record) error {
	folder := l.folder(r.BuildID)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Name() == recordFile {
			continue
		}
		if err := os.RemoveAll(filepath.Join(folder, entry.Name())); err != nil {
			return err
		}
	}
	l.Log.Info("worker removed", obs.KeyBuildID, r.BuildID, obs.KeyWorkerID, workerID(r.BuildID))
	return os.RemoveAll(folder)
}
