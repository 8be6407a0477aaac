package attempt

import (
	"slices"
	"strconv"

	"github.com/waybill-dev/waybill/internal/build"
)

// Marker returns the variable by which the processes of a step that works in repo are known.
func Marker(repo string) string { return "WAYBILL_WORKSPACE=" + repo }

// Environ returns the variables, NAME=value, that every step gets: its secrets and those that describe the
// run. repo is the folder that the step works in, as the step sees it.
func Environ(run build.Run, repo string) []string {
	env := append(slices.Clone(run.Environ),
		"CI=true",
		"WAYBILL=true",
		"WAYBILL_BUILD_ID="+run.Build,
		"WAYBILL_STEP_ID="+strconv.Itoa(run.Step.ID),
		"WAYBILL_STAGE="+run.Step.Stage,
		"WAYBILL_STEP="+run.Step.Name,
		"WAYBILL_ATTEMPT="+strconv.Itoa(run.Attempt),
		Marker(repo),
		"PWD="+repo,
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0="+repo,
	)
	if run.Trace != "" {
		env = append(env, "TRACEPARENT="+run.Trace)
	}
	return env
}
