package build

import (
	"fmt"
	"os"
	"strings"

	"github.com/waybill-dev/waybill/internal/builder/local"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/results"
)

// resumeArguments takes a build's number that follows --resume for its value, unless a folder has that name.
func resumeArguments(a *cmdline.App, arguments []string, flags *local.Options) []string {
	if flags.Resume != local.Last || len(arguments) != 1 || strings.Trim(arguments[0], "0123456789") != "" {
		return arguments
	}
	if _, err := os.Stat(a.Path(arguments[0])); err == nil {
		return arguments
	}
	flags.Resume = arguments[0]
	return nil
}

// earlierBuild opens the build that --resume names.
func earlierBuild(a *cmdline.App, name, source string) (*results.Reader, error) {
	if name != local.Last {
		return shelfOf(a).open(name)
	}
	for _, s := range shelfOf(a).summaries() {
		if s.Source == source {
			return results.Open(s.Results)
		}
	}
	return nil, fault.New(fault.NotFound, "no build of this folder is left to resume").WithHint("waybill run")
}

// mostReused bounds the reused steps that are named.
const mostReused = 5

// describeResumed returns such as: resumes build 41: test/vet is reused (cart.go has changed since), 1 step to run; ""
// if the build resumes none.
func describeResumed(h local.Head) string {
	r := h.Resumed
	if r == nil {
		return ""
	}
	toRun := show.Count(len(h.Plan.Steps)-len(r.Reused), "step") + " to run"
	if len(r.Reused) == 0 {
		return fmt.Sprintf("resumes build %s: %s", r.ID, toRun)
	}
	names := strings.Join(r.Reused, ", ")
	if more := len(r.Reused) - mostReused; more > 0 {
		names = fmt.Sprintf("%s and %d more", strings.Join(r.Reused[:mostReused], ", "), more)
	}
	changed := r.Changed
	if changed != "" {
		changed = " (" + changed + ")"
	}
	return fmt.Sprintf("resumes build %s: %s reused%s, %s", r.ID, names, changed, toRun)
}
