package promoter_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// effectsOfOne returns the effects of a promotion of R without faults.
func effectsOfOne() []string {
	return []string{"commit: Promote apps/podinfo in prod to R",
		"fact  pipeline-finished-successfully", "fact  pipeline-started",
		"fact dev stage-finished-successfully", "fact dev stage-started", "fact dev target-healthy",
		"fact prod environment-promoted", "fact prod environment-proposed", "fact prod stage-finished-successfully", "fact prod stage-started",
		"fact prod target-healthy",
		"pull request " + branch + ": Promote apps/podinfo in prod to R, merged, comments []", "run of R by candidate: finished"}
}

// hostFault is a fault of the Git host, once.
type hostFault struct {
	method, part string // matched with the call
	status       int    // answered instead of the call; 0: the call is made
	answer       string // cut: half of its answer arrives; drop: nothing does
}

// inject has the next call that fits fail. failed reports whether there was one.
func (w *fleetWorld) inject(f hostFault) (failed func() bool) {
	var mu sync.Mutex
	done := false
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = func(next http.Handler, out http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		isNow := !done && r.Method == f.method && strings.Contains(r.URL.String(), f.part)
		done = done || isNow
		mu.Unlock()
		if !isNow {
			return false
		}
		if f.status != 0 {
			if f.status != http.StatusForbidden { // with the header, 403 reports a limit
				out.Header().Set("Retry-After", "1")
			}
			out.WriteHeader(f.status)
			return true
		}
		answer := httptest.NewRecorder()
		next.ServeHTTP(answer, r)
		if f.answer == "cut" {
			out.Header().Set("Content-Type", "application/json")
			out.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
			out.WriteHeader(answer.Code)
			_, _ = out.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
			_ = http.NewResponseController(out).Flush()
		}
		panic(http.ErrAbortHandler)
	}
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
}

// TestFaultsOfTheGitHostLoseAndRepeatNothing carries one revision after the other, each with one fault at one call.
func TestFaultsOfTheGitHostLoseAndRepeatNothing(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t)
	w.live()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
	const pulls = "/api/v1/repos/apps/fleet/pulls"
	for i, f := range [...]hostFault{
		{"GET", "git-upload-pack", 500, ""},
		{"GET", "git-upload-pack", 429, ""},
		{"POST", "git-receive-pack", 503, ""},
		{"POST", "git-receive-pack", 0, "drop"},
		{"GET", pulls, 500, ""},
		{"GET", pulls, 0, "cut"},
		{"POST", pulls, 500, ""},
		{"POST", pulls, 0, "drop"},
		{"POST", pulls, 0, "cut"},
		{"POST", "/merge", 429, ""},
		{"POST", "/merge", 0, "drop"},
	} {
		failed := w.inject(f)
		revision := fmt.Sprintf("6.2.%d", i)
		w.carry(revision)
		if !failed() {
			t.Errorf("%+v: no call fits", f)
		}
		w.wantEffects(revision, fmt.Sprintf("%+v", f), effectsOfOne())
	}
}

// TestTheStatusHasTheHostsAnswerToAMerge: one that waits for a review has that reason.
func TestTheStatusHasTheHostsAnswerToAMerge(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t)
	w.live()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
	w.mu.Lock()
	w.fault = func(_ http.Handler, out http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/merge") {
			return false
		}
		out.Header().Set("Content-Type", "application/json")
		out.WriteHeader(http.StatusMethodNotAllowed)
		_, _ = out.Write([]byte(`{"message": "Does not have enough approvals"}`))
		return true
	}
	w.mu.Unlock()
	w.at("dev", "6.6.0")
	w.await("the answer", func(v promotions.View) bool {
		return len(v.Environments) == 2 && slices.ContainsFunc(v.Environments[1].Reasons, func(r promotions.ReasonView) bool {
			return r.Code == promotion.WhyAttemptLive && strings.Contains(r.Message, "Does not have enough approvals")
		})
	})
}

// TestAForbiddenAttemptIsMadeAgainWithNewCredentials: 403 ends the attempt for good, until the Secret changes. Nothing reports that.
func TestAForbiddenAttemptIsMadeAgainWithNewCredentials(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t)
	w.live()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
	w.inject(hostFault{"POST", "/api/v1/repos/apps/fleet/pulls", 403, ""})
	w.at("dev", "6.6.0")
	w.await("the attempt failed", func(v promotions.View) bool {
		return slices.ContainsFunc(v.Conditions, func(c promotions.ConditionView) bool { return c.Type == "Stalled" && c.Reason == "AttemptFailed" })
	})
	secrets := w.management.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("apps")
	secret, err := secrets.Get(t.Context(), "fleet", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.SetLabels(map[string]string{"rotated": "yes"})
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.carry("6.6.0")
}

// touch edits the pipeline, without a change of its meaning.
func (w *world) touch(n int) {
	w.t.Helper()
	objects := w.management.Resource(pipelines).Namespace("apps")
	object, err := objects.Get(w.t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	if err := unstructured.SetNestedField(object.Object, fmt.Sprintf("%dm", 30+n), "spec", "rolloutTimeout"); err != nil {
		w.t.Fatal(err)
	}
	if _, err := objects.Update(w.t.Context(), object, metav1.UpdateOptions{}); err != nil && !strings.Contains(err.Error(), "the object has been modified") {
		w.t.Fatal(err)
	}
}

// TestARestoredClusterIsNotPromotedAgain: the leaf is restored from an earlier state, in which the application has the former revision.
func TestARestoredClusterIsNotPromotedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	w.pipeline("")
	w.start()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
	w.at("dev", "6.6.0")
	w.await("prod is promoted", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseRollingOut })
	w.at("prod", "6.6.0")
	w.await("the run is finished", func(v promotions.View) bool {
		return v.Run != nil && v.Run.Revision == "6.6.0" && v.Run.End == promotion.Finished
	})
	w.leaf.Stop()
	w.leaf.Forget() // watches cannot continue where they were
	w.at("prod", "6.5.4")
	w.leaf.Start()
	w.await("the drift is seen", func(v promotions.View) bool {
		return slices.ContainsFunc(v.Conditions, func(c promotions.ConditionView) bool { return c.Type == "RolloutFailed" && c.Reason == "DriftedBack" })
	})
	if got := w.promoted(); !slices.Equal(got, []string{"6.6.0"}) {
		t.Errorf("announced %v, want 6.6.0 once", got)
	}
}

// TestAPipelineThatIsEditedAllTheTimePromotesOnce: the connections stay the same ones.
func TestAPipelineThatIsEditedAllTheTimePromotesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	w.pipeline("")
	w.start()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
	dialed, watches := w.leaf.Dialed(), w.leaf.Watches()
	w.at("dev", "6.6.0")
	for n := range 50 {
		w.touch(n)
	}
	w.await("prod is promoted", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseRollingOut })
	for n := range 50 {
		w.touch(n)
	}
	w.at("prod", "6.6.0")
	w.await("the run is finished", func(v promotions.View) bool {
		return v.Run != nil && v.Run.Revision == "6.6.0" && v.Run.End == promotion.Finished
	})
	if got := w.promoted(); !slices.Equal(got, []string{"6.6.0"}) {
		t.Errorf("announced %v, want 6.6.0 once", got)
	}
	if w.leaf.Dialed() != dialed || w.leaf.Watches() != watches {
		t.Errorf("%d connections and %d watches of the leaf, before the edits %d and %d", w.leaf.Dialed(), w.leaf.Watches(), dialed, watches)
	}
}
