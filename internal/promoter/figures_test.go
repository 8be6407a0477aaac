package promoter_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// lines collects what a logger writes.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// count returns the number of lines that have all the texts.
func (l *lines) count(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		n++
	}
	return n
}

func TestMetricsAndLogsFollowARun(t *testing.T) {
	t.Parallel()
	w, registry, log := newWorld(t), prometheus.NewPedanticRegistry(), &lines{}
	w.more = func(c *promoter.Config) {
		c.Metrics, c.Log = obs.NewPromoter(registry, true), slog.New(slog.NewTextHandler(log, nil))
	}
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	w.pipeline("")
	stop := w.start()
	w.awaitBaseline()
	w.at("dev", "6.6.0")
	w.await("prod is promoted", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseRollingOut })
	checkMetrics(t, registry, `
# HELP waybill_promoter_environment_blocked Environments for which something is in the way, by the reason; one may have several.
# TYPE waybill_promoter_environment_blocked gauge
waybill_promoter_environment_blocked{pipeline="apps:podinfo",reason="RollingOut"} 1
# HELP waybill_promoter_pipelines Kubernetes pipelines that this instance decides, by the phase of their first incomplete environment.
# TYPE waybill_promoter_pipelines gauge
waybill_promoter_pipelines{phase="RollingOut",pipeline="apps:podinfo"} 1
`, "waybill_promoter_environment_blocked", "waybill_promoter_pipelines")
	w.at("prod", "6.6.0")
	w.await("the run is finished", func(v promotions.View) bool {
		return v.Run != nil && v.Run.Revision == "6.6.0" && v.Run.End == promotion.Finished
	})
	checkMetrics(t, registry, `
# HELP waybill_promoter_runs_total Runs that ended.
# TYPE waybill_promoter_runs_total counter
waybill_promoter_runs_total{end="finished",pipeline="apps:podinfo"} 2
# HELP waybill_kube_clusters Clusters in use, by their state.
# TYPE waybill_kube_clusters gauge
waybill_kube_clusters{state="Connected"} 2
`, "waybill_promoter_runs_total", "waybill_kube_clusters")
	for _, name := range []string{"change_to_attempt_seconds", "lead_seconds", "status_writes_total"} {
		if n, err := testutil.GatherAndCount(registry, "waybill_promoter_"+name); n != 1 || err != nil {
			t.Errorf("waybill_promoter_%s: %d series, %v", name, n, err)
		}
	}
	for _, texts := range [][]string{
		{"msg=step", "event=notify", "environment=prod"},
		{"msg=verdict", "environment=prod", "status=RollingOut"},
		{"msg=verdict", "environment=prod", "status=Complete", "revision=6.6.0"},
		{`msg="cluster state changed"`, "cluster=apps/leaf", "state=Connected"},
	} {
		if n := log.count(texts...); n != 1 {
			t.Errorf("%d lines with %q, want 1", n, texts)
		}
	}
	stop()
	if n, err := testutil.GatherAndCount(registry, "waybill_kube_clusters", "waybill_promoter_pipelines"); n != 0 || err != nil {
		t.Errorf("an instance that no longer leads shows %d series of pipelines and clusters, %v", n, err)
	}
}

// checkMetrics compares some metrics.
func checkMetrics(t *testing.T, g prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	if err := testutil.GatherAndCompare(g, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
}
