package builds

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Passwords are the inputs of a build that are passwords.
type Passwords struct {
	Names  []string
	Sealed []byte // their values; nil: forgotten, as the worker has them or the build has ended
}

// AddPasswordsIn stores the passwords of a new build, in the transaction that creates it.
func (b *Builds) AddPasswordsIn(tx *store.Tx, id ID, p Passwords) error {
	if len(p.Names) == 0 {
		return nil
	}
	return b.in(tx).PutPasswords(id, p)
}

// Passwords reads the passwords of builds, by their ids. A build without any is not in the answer.
func (b *Builds) Passwords(ctx context.Context, ids ...ID) (found map[ID]Passwords, err error) {
	err = b.read(ctx, "read the passwords of builds", func(t txn) error {
		found, err = t.BuildPasswords(ids)
		return err
	})
	return found, err
}

// passwordEvent is the id of the event that ends a build with a password among its plain inputs.
const passwordEvent = "password-in-inputs"

// RefusePlain ends a build as Failed, for a reason, whose plain inputs with these names are passwords, and erases their values. The names
// are then those of passwords that the build had. A build that has a worker or has ended stays as it is.
func (b *Builds) RefusePlain(ctx context.Context, id ID, names []string, why string) error {
	return b.write(ctx, fmt.Sprintf("erase passwords in the inputs of build %d", id), func(t txn) error {
		found, err := t.lock(id)
		if err != nil || found.Status.Ended() || found.WorkerID != "" {
			return err
		}
		had, err := t.BuildPasswords([]ID{id})
		if err != nil {
			return err
		}
		passwords := Passwords{Names: append(slices.Clone(had[id].Names), names...)}
		slices.Sort(passwords.Names)
		left := maps.Clone(found.Inputs)
		for _, name := range names {
			delete(left, name)
		}
		if err := errors.Join(t.PutPasswords(id, passwords), t.EraseInputs(id, left)); err != nil {
			return err
		}
		_, err = t.record(found, Event{Source: Conductor, EventID: passwordEvent, Status: build.Failed,
			Reason: "PasswordInInputs", Message: why}, b.options)
		return err
	})
}

// Resolve stores the source of a build without a deployment: the commit that its branch was at. It returns the build
// with the source that counts, which was stored first: its worker may have been requested.
func (b *Builds) Resolve(ctx context.Context, id ID, branch, commit string) (resolved Build, err error) {
	err = b.write(ctx, fmt.Sprintf("store the commit of build %d", id), func(t txn) error {
		if resolved, err = t.lock(id); err != nil || resolved.Commit != "" {
			return err
		}
		resolved.Branch, resolved.Commit = branch, commit
		t.Touch(store.TopicBuild)
		return t.ResolveBuild(id, branch, commit)
	})
	return resolved, err
}

// NoBundle instead of a key reports that a build is given nothing of the earlier one.
const NoBundle = "none"

// Bundle stores the blob key of the results of the earlier build's steps, and returns the key that counts: the first
// one, or NoBundle.
func (b *Builds) Bundle(ctx context.Context, id ID, key string) (counts string, err error) {
	err = b.change(ctx, "store the bundle of", id, func(_ txn, b *Build) {
		if b.Bundle == "" || key == NoBundle {
			b.Bundle = key
		}
		counts = b.Bundle
	})
	return counts, err
}

// Clearer is a blob store that deletes everything below a folder.
type Clearer interface {
	Clear(ctx context.Context, folder string) error
}

// ForgetBundle deletes the results that a build got from the earlier one.
func (b *Builds) ForgetBundle(ctx context.Context, id ID, blobs Clearer) error {
	err := blobs.Clear(ctx, BundleFolder(id))
	if err == nil {
		_, err = b.Bundle(ctx, id, NoBundle)
	}
	if err != nil {
		return fmt.Errorf("delete the bundle of build %d: %w", id, err)
	}
	return nil
}

// BundleFolder returns the folder of a build's bundle in the blob store.
func BundleFolder(id ID) string { return Folder(id) + "/earlier" }

// canceledEvent is the id of the event that ends a build that no worker has.
const canceledEvent = "canceled"

// Cancel stores that a build is to be canceled, and ends it at once if it has no worker. A build that has ended is fault.Terminal.
func (b *Builds) Cancel(ctx context.Context, id ID, by string) (canceled Build, err error) {
	err = b.write(ctx, fmt.Sprintf("cancel build %d", id), func(t txn) error {
		found, err := t.lock(id)
		if err != nil {
			return err
		}
		if found.Status.Ended() {
			return fault.New(fault.Terminal, "build %d has ended: %s", id, found.Status).WithHint("it can be run again, or deleted")
		}
		found.cancel(t)
		canceled = found
		if found.WorkerID != "" {
			t.Touch(store.TopicBuild)
			return t.UpdateBuild(found)
		}
		_, err = t.record(found, Event{Source: API, EventID: canceledEvent, Status: build.Canceled, Message: "by " + by}, b.options)
		canceled.Status = build.Canceled
		return err
	})
	return canceled, err
}

// LockIn locks builds in a transaction of the caller, and returns those that have not ended, by their ids.
func (b *Builds) LockIn(tx *store.Tx, ids []ID) (map[ID]Build, error) {
	t := b.in(tx)
	open := map[ID]Build{}
	for _, id := range ids {
		found, ok, err := t.LockBuild(id)
		if err != nil {
			return nil, err
		}
		if ok && found.DeletedAt.IsZero() && !found.Status.Ended() {
			open[id] = found
		}
	}
	return open, nil
}

// EndIn ends a build whose action has ended, in the transaction that has locked it with LockIn. A build that has a worker is to be
// canceled: its end comes from the worker, or from a watchdog.
func (b *Builds) EndIn(tx *store.Tx, found Build, e Event) error {
	t := b.in(tx)
	if found.WorkerID == "" {
		_, err := t.record(found, e, b.options)
		return err
	}
	found.cancel(t)
	t.Touch(store.TopicBuild)
	return t.UpdateBuild(found)
}

// Queued is a build that waits for a worker.
type Queued struct {
	ID       ID
	Project  string
	Revision string // "": it has no deployment
	ActionID action.ID
}

// mostQueued bounds the builds that a place in the queue is counted among.
const mostQueued = 1000

// Queue lists the builds that wait for a worker, the oldest first; of very many the newest ones.
func (b *Builds) Queue(ctx context.Context) (queue []Queued, err error) {
	waiting, err := b.List(ctx, Query{Status: build.Scheduling, Active: true, Limit: mostQueued}) // Active has an index
	for i := len(waiting) - 1; i >= 0; i-- {
		if waiting[i].WorkerID == "" && waiting[i].Engine == "" {
			queue = append(queue, Queued{waiting[i].ID, waiting[i].Project, waiting[i].Revision, waiting[i].ActionID})
		}
	}
	return queue, err
}

// ActionKind is the kind of the actions that have builds run, those of deployments included.
const ActionKind = "build"

// actionParameters are the parameters of the action of a build without a deployment.
type actionParameters struct {
	Build ID `json:"build"`
}

// Describe completes the action of a build without a deployment: its kind, name, unique key and parameters.
func Describe(a *action.Action, b Build) (err error) {
	a.Kind, a.Name, a.UniqueKey = ActionKind, fmt.Sprintf("build %d of %s", b.ID, b.Project), fmt.Sprintf("build/%d", b.ID)
	a.Parameters, err = json.Marshal(actionParameters{b.ID})
	return err
}

// OfAction returns the build of an action that Describe has made; false for every other action.
func OfAction(a *action.Action) (ID, bool) {
	if a.Kind != ActionKind || a.Step != nil {
		return 0, false
	}
	var p actionParameters
	err := json.Unmarshal(a.Parameters, &p)
	return p.Build, err == nil && p.Build > 0
}
