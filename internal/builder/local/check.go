package local

import (
	"errors"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
)

// check returns an error for values that mean nothing.
func (f Options) check() error {
	switch {
	case f.DryRun != "" && f.DryRun != DryClient && f.DryRun != DryServer:
		return fault.New(fault.Invalid, "--dry-run=%s: want client, which is the default, or server", f.DryRun)
	case f.Resume != "" && f.DryRun.On():
		return fault.New(fault.Invalid, "--resume and --dry-run exclude each other")
	case slices.ContainsFunc(f.Env, func(name string) bool { return strings.Contains(name, "=") }):
		return fault.New(fault.Invalid, "--env wants the name of a variable of this environment, without a value").
			WithHint("NAME=value waybill run --env NAME")
	case f.CacheSize < 0:
		return fault.New(fault.Invalid, "--cache-size %d: want zero or more", f.CacheSize)
	case f.MaxParallel < 1:
		return fault.New(fault.Invalid, "--max-parallel %d: at least one step must run", f.MaxParallel)
	case f.Timeout <= 0:
		return fault.New(fault.Invalid, "--timeout %s: want more than zero", f.Timeout)
	case strings.ContainsAny(f.BuildID, `/\`) || f.BuildID == "." || f.BuildID == "..":
		return fault.New(fault.Invalid, "--build-id %q cannot be the name of a folder", f.BuildID)
	case strings.Trim(f.ProjectID, "0123456789") != "":
		return fault.New(fault.Invalid, "--project-id %q is not a number", f.ProjectID)
	}
	return errors.Join(f.checkSelection(), f.checkRunner(), f.Kubernetes.check(f.Runner, f.InPlace), f.Serve.check())
}

// checkSelection returns an error for flags that do not agree about the files that steps get.
func (f Options) checkSelection() error {
	switch {
	case f.InPlace && f.Workspace != "":
		return fault.New(fault.Invalid, "--in-place and --workspace exclude each other: a snapshot has no place of its own")
	case f.TrackedOnly && f.NoIgnored:
		return fault.New(fault.Invalid, "--tracked-only and --no-ignored exclude each other")
	case (f.TrackedOnly || f.NoIgnored) && (f.InPlace || f.Workspace != ""):
		return fault.New(fault.Invalid,
			"--tracked-only and --no-ignored are for builds in copies of a folder, without --in-place and --workspace")
	}
	return nil
}
