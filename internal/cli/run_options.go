package cli

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// runFlags are the flags of `waybill run`.
type runFlags struct {
	file, environment, resultsDir, buildID, workspace string
	runner, pull                                      string
	projectID                                         string
	strict, strictVars                                bool
	stages, steps, env, inputs                        []string
	passwords                                         []string // inputs of the build that is resumed, whose values are not kept
	hidden                                            []string // inputs that were given as passwords
	maxParallel                                       int
	timeout, grace                                    time.Duration
	maxStepLog                                        int64
	dryRun                                            dryRun
	inPlace, watch, shell                             bool
	trackedOnly, noIgnored, keepWorkspace, keepFailed bool
	resume                                            string // a build, or resumeLast
	secretsDir, certificates                          string
	clusters                                          []string
	noPush                                            bool
	cacheDir                                          string
	cacheSize                                         int64
	serve                                             serveBuildFlags
	launch                                            launchFlags
	kubernetes                                        kubernetesFlags
	kept                                              []string // flags that waybill build rerun gives again
	rerunOf                                           string   // id of the build that is run again; "": none
}

// check returns an error for values that mean nothing.
func (f runFlags) check() error {
	switch {
	case f.dryRun != "" && f.dryRun != dryClient && f.dryRun != dryServer:
		return fault.New(fault.Invalid, "--dry-run=%s: want client, which is the default, or server", f.dryRun)
	case f.resume != "" && f.dryRun.on():
		return fault.New(fault.Invalid, "--resume and --dry-run exclude each other")
	case slices.ContainsFunc(f.env, func(name string) bool { return strings.Contains(name, "=") }):
		return fault.New(fault.Invalid, "--env wants the name of a variable of this environment, without a value").WithHint("NAME=value waybill run --env NAME")
	case f.cacheSize < 0:
		return fault.New(fault.Invalid, "--cache-size %d: want zero or more", f.cacheSize)
	case f.maxParallel < 1:
		return fault.New(fault.Invalid, "--max-parallel %d: at least one step must run", f.maxParallel)
	case f.timeout <= 0:
		return fault.New(fault.Invalid, "--timeout %s: want more than zero", f.timeout)
	case strings.ContainsAny(f.buildID, `/\`) || f.buildID == "." || f.buildID == "..":
		return fault.New(fault.Invalid, "--build-id %q cannot be the name of a folder", f.buildID)
	case strings.Trim(f.projectID, "0123456789") != "":
		return fault.New(fault.Invalid, "--project-id %q is not a number", f.projectID)
	}
	return errors.Join(f.checkSelection(), f.checkRunner(), f.kubernetes.check(f.runner, f.inPlace), f.serve.check())
}

// checkSelection returns an error for flags that do not agree about the files that steps get.
func (f runFlags) checkSelection() error {
	switch {
	case f.inPlace && f.workspace != "":
		return fault.New(fault.Invalid, "--in-place and --workspace exclude each other: a snapshot has no place of its own")
	case f.trackedOnly && f.noIgnored:
		return fault.New(fault.Invalid, "--tracked-only and --no-ignored exclude each other")
	case (f.trackedOnly || f.noIgnored) && (f.inPlace || f.workspace != ""):
		return fault.New(fault.Invalid, "--tracked-only and --no-ignored are for builds in copies of a folder, without --in-place and --workspace")
	}
	return nil
}

// Values of --dry-run.
const (
	dryClient = "client" // nothing but the plan
	dryServer = "server" // what runs the steps is asked too
)

// dryRun is the flag --dry-run.
type dryRun string

// on reports whether nothing runs.
func (d dryRun) on() bool { return d != "" }
