package buildstest

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func passwordsAreForgotten(t *testing.T, s setup) {
	created := func() builds.ID {
		var id builds.ID
		storetest.Check(t, s.db.Write(s.ctx, "create a build", func(tx *store.Tx) error {
			b, err := s.CreateIn(tx, builds.Build{Project: "shop"})
			if id = b.ID; err != nil {
				return err
			}
			return s.AddPasswordsIn(tx, id, builds.Passwords{Names: []string{"key"}, Sealed: []byte{1, 0, 2}})
		}))
		return id
	}
	assigned, ended, plain := created(), created(), s.create(t)
	check := func(id builds.ID, sealed []byte) {
		t.Helper()
		found, err := s.Passwords(s.ctx, assigned, ended, plain)
		storetest.Check(t, err)
		if p := found[id]; len(found) != 2 || !slices.Equal(p.Names, []string{"key"}) || !bytes.Equal(p.Sealed, sealed) {
			t.Errorf("build %d: %+v", id, found)
		}
	}
	check(assigned, []byte{1, 0, 2})
	storetest.Check(t, s.Assign(s.ctx, assigned, "w", "nonce"))
	check(assigned, nil)
	check(ended, []byte{1, 0, 2})
	_, err := s.Cancel(s.ctx, ended, "ana")
	storetest.Check(t, err)
	check(ended, nil)
}

func aPasswordInTheInputsIsErased(t *testing.T, s setup) {
	given := map[string]string{"level": "debug", "key": "marlin"}
	create := func(p builds.Passwords) (id builds.ID) {
		storetest.Check(t, s.db.Write(s.ctx, "create a build", func(tx *store.Tx) error {
			b, err := s.CreateIn(tx, builds.Build{Project: "shop", Inputs: given})
			if id = b.ID; err != nil {
				return err
			}
			return s.AddPasswordsIn(tx, id, p)
		}))
		return id
	}
	plain, both, runs := create(builds.Passwords{}), create(builds.Passwords{Names: []string{"token"},
		Sealed: []byte{1, 0, 2}}), create(builds.Passwords{})
	storetest.Check(t, s.Assign(s.ctx, runs, "w", "nonce"))
	for id, want := range map[builds.ID][]string{plain: {"key"}, both: {"key", "token"}, runs: nil} {
		storetest.Check(t, s.RefusePlain(s.ctx, id, []string{"key"}, "key is a password"))
		b, err := s.Build(s.ctx, id)
		storetest.Check(t, err)
		found, err := s.Passwords(s.ctx, id)
		storetest.Check(t, err)
		if id == runs {
			if b.Status != build.Scheduling || b.Inputs["key"] != "marlin" || len(found) != 0 {
				t.Errorf("a build with a worker: %+v, %+v", b, found)
			}
			continue
		}
		if b.Status != build.Failed || b.Reason != "PasswordInInputs" || b.Message != "key is a password" ||
			len(b.Inputs) != 1 || b.Inputs["level"] != "debug" {
			t.Errorf("%+v", b)
		}
		if p := found[id]; !slices.Equal(p.Names, want) || p.Sealed != nil {
			t.Errorf("%+v", p)
		}
	}
	storetest.Check(t, s.Delete(s.ctx, plain))
	if all, err := s.List(s.ctx, builds.Query{IDs: []builds.ID{plain}, Deleted: true}); err != nil || len(all) != 1 ||
		len(all[0].Inputs) != 0 {
		t.Errorf("a deleted build has inputs: %+v, %v", all, err)
	}
}

func aCancelEndsABuildWithoutAWorker(t *testing.T, s setup) {
	waits := s.create(t)
	fresh, err := s.Create(s.ctx, builds.Build{Project: "shop", Branch: "topic"})
	storetest.Check(t, err)
	runs := fresh.ID
	for _, commit := range []string{"88d0e17", "3f9c2ab"} { // another conductor requests the branch at the same time
		resolved, err := s.Resolve(s.ctx, runs, "topic", commit)
		storetest.Check(t, err)
		if resolved.ID != runs || resolved.Branch != "topic" || resolved.Commit != "88d0e17" {
			t.Errorf("after %s: %+v", commit, resolved)
		}
	}
	if queue, err := s.Queue(s.ctx); err != nil || len(queue) != 2 || queue[0].ID != waits {
		t.Errorf("queue %+v, %v", queue, err)
	}
	storetest.Check(t, s.Assign(s.ctx, runs, "w", "nonce"))
	for id, want := range map[builds.ID]build.Status{waits: build.Canceled, runs: build.Scheduling} {
		_, err := s.Cancel(s.ctx, id, "ana")
		storetest.Check(t, err)
		b, err := s.Build(s.ctx, id)
		if err != nil || b.Status != want || b.CancelRequestedAt.IsZero() {
			t.Errorf("%+v, %v", b, err)
		}
	}
	if b, err := s.Build(s.ctx, runs); err != nil || b.Branch != "topic" || b.Commit != "88d0e17" {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := s.Cancel(s.ctx, waits, "ana"); !fault.Is(err, fault.Terminal) {
		t.Errorf("a build that has ended: %v", err)
	}
	if queue, err := s.Queue(s.ctx); err != nil || len(queue) != 0 {
		t.Errorf("queue %+v, %v", queue, err)
	}
}

// theQueueReadsNoBuildThatHasEnded: each build that waits reads the queue, and ended ones stay for good. A
// server's planner decides by what its tables hold, so only the embedded database is checked.
func theQueueReadsNoBuildThatHasEnded(t *testing.T, s setup) {
	if !s.db.Embedded() {
		return
	}
	rows := &watched{Driver: s.driver}
	_, err := builds.New(s.db, rows, builds.Options{}).Queue(s.ctx)
	storetest.Check(t, err)
	plans, err := s.driver.Explain(s.ctx, func(tx store.Rows) error {
		of, _ := s.driver.BuildRows(tx)
		_, err := of.Builds(rows.query)
		return err
	})
	storetest.Check(t, err)
	if len(plans) != 1 || !strings.Contains(plans[0], "build_unfinished") {
		t.Errorf("the plan is %q", plans)
	}
}
