package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

func entry(tenths int, target string, class pipeline.Class, event, detail string) pipeline.Entry {
	return pipeline.Entry{Pipeline: "greeter", Deployment: 1, Target: target, Class: class, Event: event, At: at(tenths),
		Detail: json.RawMessage(detail)}
}

func TestStoryTellsEachChangeInOneLine(t *testing.T) {
	t.Parallel()
	fact, note := pipeline.Fact, pipeline.Note
	elm := "greeter/prod/east/elm"
	entries := []pipeline.Entry{
		entry(0, "greeter", note, pipeline.DeploymentCreated, `{"by":"ana"}`),
		entry(0, "greeter", fact, pipeline.PipelineStarted, ``),
		entry(0, "greeter/build", note, pipeline.StepClaimed, `{"event":"build-completed"}`),
		entry(62, "greeter/build", fact, pipeline.BuildCompleted, `{}`),
		entry(62, "greeter/build", fact, pipeline.ArtifactEvent("amd64"), `{"size":4100000,"digest":"9b1e07d2aa"}`),
		entry(63, elm, fact, pipeline.HostStarted, ``),
		entry(63, elm, note, pipeline.StepClaimed, `{"event":"host-deployed"}`),
		entry(123, elm, fact, pipeline.HostDeployed, `{"text":"already runs 88d0e17, not restarted","attempt":2,"spent":0}`),
		entry(123, elm, note, pipeline.StepClaimed, `{"event":"host-cache-warmed"}`),
		entry(130, elm, note, pipeline.StepFailed, `{"event":"host-cache-warmed","error":"exit 1\nlong"}`),
		entry(140, "greeter", note, pipeline.RetryRequested, `{"by":"ana","reason":"mended"}`),
		entry(150, elm, fact, pipeline.HostFinished, ``),
	}
	s := newStory(greeterView(), Style{})
	var lines []string
	for _, e := range entries {
		if text := s.line(e); text != "" {
			lines = append(lines, text)
		}
	}
	want := `  build            building
  build            built                                         6.2s
  build  amd64     received  4.1 MB sha256:9b1e07d2
  prod   east/elm  deploying
  prod   east/elm  deployed  already runs 88d0e17, not restarted (attempt 2, none counted)  6.0s
  prod   east/elm  running cache-warmed
  prod   east/elm  failed  running cache-warmed: exit 1 …
                   retried  by ana: "mended"
  prod   east/elm  finished  deployed 6.0s`
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Errorf("story (-want +got):\n%s", diff)
	}
}
