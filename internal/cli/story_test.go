package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/schedule"
)

func entry(tenths int, target string, class schedule.Class, event, detail string) schedule.Entry {
	return schedule.Entry{Pipeline: "greeter", Deployment: 1, Target: target, Class: class, Event: event, At: at(tenths), Detail: json.RawMessage(detail)}
}

func TestStoryTellsEachChangeInOneLine(t *testing.T) {
	t.Parallel()
	fact, note := schedule.Fact, schedule.Note
	elm := "greeter/prod/east/elm"
	entries := []schedule.Entry{
		entry(0, "greeter", note, schedule.DeploymentCreated, `{"by":"ana"}`),
		entry(0, "greeter", fact, schedule.PipelineStarted, ``),
		entry(0, "greeter/build", note, schedule.StepClaimed, `{"event":"build-completed"}`),
		entry(62, "greeter/build", fact, schedule.BuildCompleted, `{}`),
		entry(62, "greeter/build", fact, schedule.ArtifactEvent("amd64"), `{"size":4100000,"digest":"9b1e07d2aa"}`),
		entry(63, elm, fact, schedule.HostStarted, ``),
		entry(63, elm, note, schedule.StepClaimed, `{"event":"host-deployed"}`),
		entry(123, elm, fact, schedule.HostDeployed, `{"text":"already runs 88d0e17, not restarted","attempt":2,"spent":0}`),
		entry(123, elm, note, schedule.StepClaimed, `{"event":"host-cache-warmed"}`),
		entry(130, elm, note, schedule.StepFailed, `{"event":"host-cache-warmed","error":"exit 1\nlong"}`),
		entry(140, "greeter", note, schedule.RetryRequested, `{"by":"ana","reason":"mended"}`),
		entry(150, elm, fact, schedule.HostFinished, ``),
	}
	s := newStory(greeterView(), style{})
	var lines []string
	for _, e := range entries {
		if text := s.tell(e); text != "" {
			lines = append(lines, text)
		}
	}
	want := `  build            building
  build            built                                         6.2s
  build  amd64     received  4.1 MB sha256:9b1e07d2
  prod   east/elm  deploying
  prod   east/elm  deployed  already runs 88d0e17, not restarted (attempt 2, none spent)  6.0s
  prod   east/elm  running cache-warmed
  prod   east/elm  failed  running cache-warmed: exit 1 …
                   retried  by ana: "mended"
  prod   east/elm  finished  deployed 6.0s`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}
