package build

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

// Names in a build's folder beside the results.
const (
	snapshotFile = "workspace.tar.zst"
	reportedFile = "reported" // the attempt's outcome was handed to the conductor
)

// childGrace is the time in which `waybill run` ends its steps and writes the results, beyond the steps' own grace.
const childGrace = command.DefaultGrace + 10*time.Second

// id names an attempt's build: it is unique, and the name of a folder.
func (t *task) id(attempt int) string {
	return t.attempt.Action.ID.String() + "." + strconv.Itoa(attempt)
}

func (t *task) dir(attempt int) string { return filepath.Join(t.Builds, t.id(attempt)) }

// unreported finds the results of an earlier attempt that came to its end and was never
// recorded, because this process or its predecessor died in between; nil if no attempt has any.
func (t *task) unreported() (*results.Reader, error) {
	for attempt := t.attempt.Number - 1; attempt > 0; attempt-- {
		r, err := results.Open(t.dir(attempt))
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		final, err := r.Final()
		if err != nil || final == nil || final.Status == build.Canceled {
			continue // torn, or ended with its conductor: build again
		}
		if _, err := os.Stat(filepath.Join(r.Dir(), reportedFile)); err == nil && final.Status != build.Completed {
			continue // its failure was recorded, and this is the retry
		}
		if r.Verify() == nil {
			return r, nil
		}
	}
	return nil, nil
}

// run fetches the snapshot and builds it.
func (t *task) run(ctx context.Context) (*results.Reader, error) {
	dir := t.dir(t.attempt.Number)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the build's folder: %w", err)
	}
	if err := results.RootAt(t.Builds).Prune(time.Now()); err != nil {
		t.Log.Warn("old builds cannot be removed", obs.Error(err))
	}
	for earlier := 1; earlier < t.attempt.Number; earlier++ {
		t.tidy(earlier) // its process may have been killed
	}
	defer t.tidy(t.attempt.Number)
	snapshot := filepath.Join(dir, snapshotFile)
	if err := t.fetch(ctx, snapshot); err != nil {
		return nil, fmt.Errorf("fetch the snapshot of revision %s: %w", t.revision.Label, err)
	}
	said := &command.Tail{Limit: 4 << 10}
	exit, err := command.Command{
		Argv:   append(append([]string{}, t.Program...), t.arguments(dir, snapshot)...),
		Dir:    dir,
		Env:    t.environment(ctx),
		Stderr: said,
		Grace:  childGrace,
	}.Run(ctx)
	if err != nil {
		return nil, fmt.Errorf("start the build: %w", err)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	r, err := results.Open(dir)
	if fault.Is(err, fault.NotFound) {
		text, _ := said.Text()
		return nil, neverBegan(exit, text)
	}
	return r, err
}

// tidy removes the copy of the snapshot, which stays in the blob store, and the folder of a build that has no results.
func (t *task) tidy(attempt int) {
	_ = os.Remove(filepath.Join(t.dir(attempt), snapshotFile)) // a later attempt tries again
	_ = os.Remove(t.dir(attempt))                              // only if nothing is in it
}

// fetch copies the snapshot out of the blob store. A key that ends in a digest is compared with the
// bytes.
func (t *task) fetch(ctx context.Context, to string) (err error) {
	in, _, err := t.Blobs.Get(ctx, t.revision.Snapshot)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	sum := sha256.New()
	if _, err := io.Copy(io.MultiWriter(out, sum), in); err != nil {
		return errors.Join(err, out.Close())
	}
	if want := path.Base(t.revision.Snapshot); len(want) == hex.EncodedLen(sha256.Size) && want != hex.EncodeToString(sum.Sum(nil)) {
		return errors.Join(fault.New(fault.Corrupt, "the stored bytes are not those that were registered (%s)", want), out.Close())
	}
	return out.Close()
}

// arguments returns the arguments of `waybill run`.
func (t *task) arguments(dir, snapshot string) []string {
	arguments := []string{"run", "--results-dir", dir, "--build-id", t.id(t.attempt.Number), "--workspace", snapshot,
		"--runner", "process"}
	if t.stage.Build.File != "" {
		arguments = append(arguments, "--file", t.stage.Build.File)
	}
	if t.stage.Build.Stage != "" {
		arguments = append(arguments, "--stage", t.stage.Build.Stage)
	}
	return arguments
}

// environment describes the revision to the build, since a snapshot has no repository to ask. It is without the
// variables that open the log: the steps of a build can read the environment of their ancestors.
func (t *task) environment(ctx context.Context) []string {
	env := slices.DeleteFunc(os.Environ(), opensLog)
	if trace := obs.Traceparent(ctx); trace != "" {
		env = append(env, "TRACEPARENT="+trace)
	}
	for name, value := range t.variables() {
		env = append(env, "WHARF_VAR_"+name+"="+value)
	}
	return env
}

// opensLog reports whether a variable, NAME=value, is a token of Waybill or one by which programs connect to PostgreSQL.
func opensLog(pair string) bool {
	return strings.HasPrefix(pair, "WAYBILL_TOKEN=") || strings.HasPrefix(pair, "PG")
}

// variables returns the variables that a build's file can replace, as far as it is known.
func (t *task) variables() map[string]string {
	r := t.revision
	known := map[string]string{"REPO_NAME": r.Pipeline, "GIT_COMMIT": r.Commit, "GIT_COMMIT_SUBJECT": r.Subject,
		"GIT_COMMIT_SHORT": short(r.Commit), "GIT_BRANCH": r.Branch, "REPO_BRANCH": r.Branch,
		"GIT_SAFEBRANCH":   strings.ReplaceAll(r.Branch, "/", "-"),
		"WAYBILL_REVISION": r.Label}
	maps.DeleteFunc(known, func(_, value string) bool { return value == "" })
	return known
}

func short(commit string) string { return commit[:min(7, len(commit))] }

// neverBegan returns the outcome of a build that left no results: its file is at fault, or this
// computer is.
func neverBegan(exit command.Exit, said string) error {
	text := strings.TrimSpace(said)
	if text == "" {
		text = exit.String()
	}
	o := action.Outcome{Kind: action.Retry, Code: "build_not_started", Error: "the build could not start: " + text}
	if exit.Code == fault.ExitUsage {
		o = action.Outcome{Kind: action.BadInput, Code: "build_file", Error: "the build's file is at fault:\n" + text}
	}
	return end{o}
}
