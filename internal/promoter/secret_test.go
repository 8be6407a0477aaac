package promoter_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// echo answers all calls of a kind, or the first one, with a status and its credentials.
func (w *fleetWorld) echo(status int, call string, once bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var answered atomic.Bool
	w.fault = func(_ http.Handler, out http.ResponseWriter, r *http.Request) bool {
		fits := r.Header.Get("Authorization") != "" && strings.Contains(r.Method+" "+r.URL.String(), call)
		if !fits || answered.Swap(true) && once {
			return false
		}
		_, password, _ := r.BasicAuth()
		out.Header().Set("Content-Type", "text/plain")
		out.WriteHeader(status)
		fmt.Fprintf(out, "not with %q, %q\n", r.Header.Get("Authorization"), password)
		return true
	}
}

// TestSecretsAreInNothingThatIsWritten has a host repeat the credentials of its callers, and searches for these in
// everything that a promotion leaves.
func TestSecretsAreInNothingThatIsWritten(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t)
	var log lines
	w.log = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	w.live()
	w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
	for i, call := range []string{"git-upload-pack", "git-receive-pack", "GET /api", "/merge"} {
		w.echo(http.StatusInternalServerError, call, true)
		w.carry(fmt.Sprintf("6.3.%d", i))
	}
	w.echo(http.StatusForbidden, "POST /api", false)
	w.at("dev", "6.4.0")
	w.await("the attempt has failed", func(v promotions.View) bool {
		return slices.ContainsFunc(v.Environments, func(env promotions.EnvironmentView) bool {
			return slices.ContainsFunc(env.Reasons, func(r promotions.ReasonView) bool { return r.Code == promotion.WhyAttemptFailed })
		})
	})
	written := map[string]string{"pull requests": fmt.Sprintf("%+v", w.model.Pulls(t)),
		"commits": w.git.Git(w.git.Dir, "log", "--all", "--patch", "--format=full")}
	log.mu.Lock()
	written["log"] = log.text.String()
	log.mu.Unlock()
	for _, resource := range []schema.GroupVersionResource{pipelines, {Version: "v1", Resource: "events"}} {
		list, err := w.management.Resource(resource).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		written[resource.Resource] = string(text)
	}
	err := filepath.WalkDir(w.folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		written[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	echoed := false
	for place, text := range written {
		echoed = echoed || strings.Contains(text, "not with")
		for _, secret := range []string{githosttest.Token, base64.StdEncoding.EncodeToString([]byte("waybill:" + githosttest.Token))} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s has a secret after %q", place, text[max(0, at-200):at])
			}
		}
	}
	if !echoed {
		t.Error("the answers of the host are not in what is searched")
	}
}
