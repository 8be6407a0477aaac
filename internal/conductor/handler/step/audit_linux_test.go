package step

import (
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// auditLine has a time, a verb, an action, a rank, a release, what happened and the deployment.
var auditLine = regexp.MustCompile(
	`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{3})?Z ([a-z]+) \S+ \d+ \S+ (began|status (\d+)(?:: .*)?) \(.*\)$`)

// A verb that changes something has a line when it begins and one when it ends, also one that is refused.
func TestAuditHasBothEndsOfAVerb(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		for n := int64(1); n <= 2; n++ {
			w.revise(n, forever+" #"+strings.Repeat("x", int(n)))
			w.done(n, pipeline.HostReplicated)
		}
		w.done(2, pipeline.HostDeployed)
		w.wantOutcome(w.do(t.Context(), 1, pipeline.HostDeployed), action.Fatal, "greeter#2 was here")
		began, ended := map[string]int{}, map[string]int{}
		for _, line := range strings.Split(strings.TrimSpace(w.read(".waybill/audit")), "\n") {
			m := auditLine.FindStringSubmatch(line)
			if m == nil {
				t.Fatalf("audit line %q", line)
			}
			if m[2] == "began" {
				began[m[1]]++
				continue
			}
			ended[m[1]]++
			ended[m[1]+" "+m[3]]++
		}
		for _, verb := range []string{"replicate", "receive", "deploy"} {
			if began[verb] == 0 || began[verb] != ended[verb] {
				t.Errorf("%s began %d times, ended %d times", verb, began[verb], ended[verb])
			}
		}
		if ended["deploy 0"] != 1 || ended["deploy 65"] != 1 || began["status"] != 0 {
			t.Errorf("ends %v", ended)
		}
	})
}
