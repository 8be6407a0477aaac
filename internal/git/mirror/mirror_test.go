package mirror

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// m is a marker of prod, and n one of staging.
const (
	m = ` # {"$promotion": "apps:podinfo:prod"}`
	n = ` # {"$promotion": "apps:podinfo:staging"}`
)

func fleet() map[string]string {
	return map[string]string{
		"clusters/prod/podinfo.yaml":    "spec:\r\n  version: \"6.5.4\"" + m + "\r\n",
		"clusters/prod/Kustomization":   "images:\n- name: podinfo\n  newTag: 6.5.4" + m + "\n",
		"clusters/staging/podinfo.yaml": "spec:\n  version: 6.6.0" + n + "\n",
		"clusters/prod/notes.txt":       "version: 6.5.4" + m + "\n",
		"README.md":                     "a fleet\n",
	}
}

func TestProposeMakesABranchThatChangesTheMarkedLines(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	r := propose(t, s, h.request("6.6.0"))
	if !r.Pushed || r.AlreadyAsked || r.Foreign || r.Head != h.Tip(head) || r.Base != h.Tip("main") || len(r.Lines) != 2 {
		t.Errorf("%+v", r)
	}
	if got, want := h.Read(head, "clusters/prod/podinfo.yaml"), "spec:\r\n  version: \"6.6.0\""+m+"\r\n"; got != want {
		t.Errorf("got %q", got)
	}
	changed := h.Git(h.Dir, "diff", "--name-only", "main", head)
	if changed != "clusters/prod/Kustomization\nclusters/prod/podinfo.yaml" {
		t.Errorf("these files change: %s", changed)
	}
	if diff := h.Git(h.Dir, "diff", "--numstat", "main", head); strings.Count(diff, "1\t1\t") != 2 {
		t.Errorf("more than the marked lines change: %s", diff)
	}
	const want = "Waybill <waybill@noreply.invalid> 1767362520 Waybill <waybill@noreply.invalid> 1767362520 Promote apps/podinfo in prod to 6.6.0\n\n" +
		"Waybill-Pipeline: apps/podinfo\nWaybill-Environment: prod\nWaybill-Revision: 6.6.0\nWaybill-Run: run-12"
	if got := h.Git(h.Dir, "log", "-1", "--format=%an <%ae> %at %cn <%ce> %ct %B", head); got != want {
		t.Errorf("the commit is %q", got)
	}
	if parent := h.Git(h.Dir, "rev-parse", head+"^"); parent != r.Base {
		t.Errorf("its parent is %s", parent)
	}
}

func TestARepetitionPushesNothing(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	first := propose(t, s, h.request("6.6.0"))
	h.Intercept(nil)
	second := propose(t, s, h.request("6.6.0"))
	if second.Pushed || second.Head != first.Head || len(second.Lines) != 2 {
		t.Errorf("%+v", second)
	}
	for _, call := range h.Called() {
		if strings.Contains(call, "receive-pack") {
			t.Errorf("it calls %s", call)
		}
	}
	if calls := h.Called(); len(calls) > 2 {
		t.Errorf("a warm mirror makes %d calls: %v", len(calls), calls)
	}
	// another process, after a crash that has lost the mirror and the response of the push
	third := propose(t, open(t), h.request("6.6.0"))
	if third.Pushed || third.Head != first.Head {
		t.Errorf("%+v", third)
	}
}

func TestTheSameBaseAndRunGiveTheSameCommit(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	first := propose(t, open(t), h.request("6.6.0"))
	h.Git(h.Dir, "update-ref", "-d", "refs/heads/"+head)
	second := propose(t, open(t), h.request("6.6.0"))
	if !second.Pushed || second.Head != first.Head {
		t.Errorf("the commits are %s and %s", first.Head, second.Head)
	}
}

func TestNothingToChange(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	r := propose(t, open(t), h.request("6.5.4"))
	if !r.AlreadyAsked || r.Pushed || r.Base != h.Tip("main") || h.Tip(head) != "" {
		t.Errorf("%+v", r)
	}
}

func TestWithoutMarkers(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	request := h.request("6.6.0")
	request.Of.Name = "production"
	_, err := open(t).Propose(t.Context(), request)
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != NoMarkers || e.Class != Fatal {
		t.Errorf("%v", err)
	}
	request = h.request("6.6.0")
	request.Paths = []string{"clusters/staging/**"}
	if _, err := open(t).Propose(t.Context(), request); err == nil || !strings.Contains(err.Error(), "has a marker") {
		t.Errorf("%v", err)
	}
}

func TestUnusableMarkersChangeNothing(t *testing.T) {
	t.Parallel()
	files := fleet()
	files["clusters/prod/z.yaml"] = "a: 1\nversion: |" + m + "\n  6.5.4\n"
	h := newHost(t, files)
	_, err := open(t).Propose(t.Context(), h.request("6.6.0"))
	if e, ok := errors.AsType[*Error](err); !ok || e.Reason != MarkerUnusable || !strings.Contains(e.Text, "clusters/prod/z.yaml:2: ") {
		t.Errorf("%v", err)
	}
	if h.Tip(head) != "" {
		t.Error("a branch is pushed all the same")
	}
}

func TestAMovedBaseIsNoReasonToTouchTheBranch(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	first := propose(t, s, h.request("6.6.0"))
	h.Write(map[string]string{"README.md": "changed\n"})
	base := h.Commit("main")
	second := propose(t, s, h.request("6.6.0"))
	if second.Pushed || second.Head != first.Head || second.Base != base {
		t.Errorf("%+v", second)
	}
	request := h.request("6.6.0")
	request.Redo = true
	third := propose(t, s, request)
	if !third.Pushed || h.Git(h.Dir, "rev-parse", head+"^") != base {
		t.Errorf("%+v", third)
	}
}

func TestANewerRevisionReplacesOurBranch(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	propose(t, s, h.request("6.6.0"))
	request := h.request("6.7.0")
	request.Run = "run-13"
	r := propose(t, s, request)
	if !r.Pushed || h.Git(h.Dir, "rev-parse", head+"^") != r.Base ||
		!strings.Contains(h.Read(head, "clusters/prod/Kustomization"), "6.7.0") {
		t.Errorf("%+v", r)
	}
}

func TestCommitsOfOthersAreNeverOverwritten(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	propose(t, s, h.request("6.6.0"))
	h.Git(h.Work, "fetch", "--quiet", "origin", head)
	h.Git(h.Work, "checkout", "--quiet", "FETCH_HEAD")
	h.Write(map[string]string{"migration.yaml": "a: b\n"})
	person := h.Commit(head)
	same := propose(t, s, h.request("6.6.0"))
	if same.Pushed || !same.Foreign || same.Head != person {
		t.Errorf("%+v", same)
	}
	request := h.request("6.7.0")
	onTop := propose(t, s, request)
	if !onTop.Pushed || !onTop.Foreign || h.Git(h.Dir, "rev-parse", head+"^") != person {
		t.Errorf("%+v", onTop)
	}
	// the tip is ours now, and the commit below it is not
	request = h.request("6.8.0")
	again := propose(t, open(t), request)
	if !again.Foreign || h.Read(head, "migration.yaml") != "a: b\n" {
		t.Errorf("%+v", again)
	}
	if repeated := propose(t, s, request); repeated.Pushed || repeated.Head != again.Head {
		t.Errorf("%+v", repeated)
	}
}

func TestPathsRestrictTheFiles(t *testing.T) {
	t.Parallel()
	for pattern, paths := range map[string]map[string]bool{
		"clusters/prod":     {"clusters/prod/a.yaml": true, "clusters/production/a.yaml": false, "x/clusters/prod/a.yaml": false},
		"clusters/*/a.yaml": {"clusters/prod/a.yaml": true, "clusters/a/b/a.yaml": false},
		"**/prod/**":        {"clusters/prod/a/b.yaml": true, "prod/a.yaml": true, "clusters/a.yaml": false},
		"./clusters/":       {"clusters/a.yaml": true},
		"a?.yaml":           {"ab.yaml": true, "a/.yaml": false},
		"a.b[c](d)|^$":      {"a.b[c](d)|^$": true, "axb": false},
		"*.yaml":            {"a.yaml": true, "b/a.yaml": false},
		"**":                {"a/b": true},
	} {
		g, err := parseGlobs([]string{pattern})
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range paths {
			if g.match(path) != want {
				t.Errorf("%s matches %s: %t", pattern, path, !want)
			}
		}
	}
}

func TestADamagedMirrorIsMadeAgain(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(dir string) error{
		"deleted":      os.RemoveAll,
		"no HEAD":      func(dir string) error { return os.Remove(filepath.Join(dir, "HEAD")) },
		"no objects":   func(dir string) error { return os.RemoveAll(filepath.Join(dir, "objects", "pack")) },
		"a left lock":  func(dir string) error { return os.WriteFile(filepath.Join(dir, "shallow.lock"), nil, 0o600) },
		"a short pack": func(dir string) error { return truncatePacks(dir) },
		"a branch's lock": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "refs", "heads", "main.lock"), nil, 0o600)
		},
		"an edit's lock": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "refs", "waybill", "edit.lock"), nil, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, fleet())
			s := open(t)
			propose(t, s, h.request("6.6.0"))
			h.Write(map[string]string{"README.md": "changed\n"})
			h.Commit("main")
			dirs, err := filepath.Glob(filepath.Join(s.Dir, "*.git"))
			if err != nil || len(dirs) != 1 {
				t.Fatal(dirs, err)
			}
			if err := damage(dirs[0]); err != nil {
				t.Fatal(err)
			}
			if r := propose(t, s, h.request("6.7.0")); !r.Pushed ||
				!strings.Contains(h.Read(head, "clusters/prod/Kustomization"), "6.7.0") {
				t.Errorf("%+v", r)
			}
		})
	}
}

func truncatePacks(dir string) error {
	packs, err := filepath.Glob(filepath.Join(dir, "objects", "pack", "*.pack"))
	for _, pack := range packs {
		err = errors.Join(err, os.Chmod(pack, 0o600), os.Truncate(pack, 40))
	}
	return err
}

func TestAMirrorIsUsedByOneOperation(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	s := open(t)
	err := s.with(t.Context(), h.remote(), func(ctx context.Context, _ *session) error {
		_, err := s.Propose(ctx, h.request("6.6.0"))
		return err
	})
	if e, ok := errors.AsType[*Error](err); !ok || e.Class != Later || e.Reason != InUse {
		t.Errorf("%v", err)
	}
	other := h.request("6.6.0")
	other.Remote.Scope = "other/secret"
	err = s.with(t.Context(), h.remote(), func(ctx context.Context, _ *session) error {
		_, err := s.Propose(ctx, other)
		return err
	})
	if err != nil {
		t.Errorf("another scope has a mirror of its own: %v", err)
	}
}

func TestTheCommitterIsConfigured(t *testing.T) {
	t.Parallel()
	h := newHost(t, fleet())
	before := propose(t, open(t), h.request("6.6.0"))
	s, err := Open(Options{Dir: t.TempDir(), Committer: Committer{Name: "Fleet bot", Email: "fleet@example.org"}})
	if err != nil {
		t.Fatal(err)
	}
	if r := propose(t, s, h.request("6.6.0")); r.Pushed || r.Foreign || r.Head != before.Head {
		t.Errorf("the commit of the former committer is made again: %+v", r)
	}
	if r := propose(t, s, h.request("6.7.0")); !r.Pushed || r.Foreign {
		t.Errorf("the branch of the former committer counts as that of others: %+v", r)
	}
	const want = "Fleet bot <fleet@example.org> Fleet bot <fleet@example.org>"
	if got := h.Git(h.Dir, "log", "-1", "--format=%an <%ae> %cn <%ce>", head); got != want {
		t.Errorf("the commit is by %s, want %s", got, want)
	}
	if r := propose(t, s, h.request("6.7.0")); r.Pushed || r.Foreign {
		t.Errorf("its own commit is not recognized: %+v", r)
	}
}
