package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/promotion"
)

var noon = time.Date(2026, time.March, 13, 12, 0, 0, 0, time.UTC)

func is(status string) promotion.Condition { return promotion.Condition{Status: status} }

// kustomization returns a Kustomization's state at two revisions.
func kustomization(ready, applied, attempted string) promotion.AppState {
	return promotion.AppState{Generation: 2, Observed: 2, Ready: is(ready), HasApplied: applied != "", Applied: applied,
		HasAttempted: attempted != "", Attempted: attempted}
}

// helmRelease returns a HelmRelease's state with a history of "status version" rows.
func helmRelease(ready, attempted string, history ...string) promotion.AppState {
	app := promotion.AppState{Generation: 1, Observed: 1, Ready: is(ready), Helm: true, HasHistory: true,
		HasAttempted: attempted != "", Attempted: attempted}
	for _, row := range history {
		status, version, _ := strings.Cut(row, " ")
		app.History = append(app.History, promotion.Release{Status: status, ChartVersion: version,
			AppVersion: "app-" + version, OCIDigest: "sha256:" + version})
	}
	return app
}

func with(app promotion.AppState, change func(*promotion.AppState)) promotion.AppState {
	change(&app)
	return app
}

func TestObserveClassifiesTargets(t *testing.T) {
	t.Parallel()
	ready := promotion.Seen{Class: promotion.Ready, Applied: "a", Attempted: "a"}
	unknown := func(why promotion.Unseen) promotion.Seen { return promotion.Seen{Class: promotion.Unknown, Why: why} }
	at := func(c promotion.Class, applied, attempted promotion.Revision) promotion.Seen {
		return promotion.Seen{Class: c, Applied: applied, Attempted: attempted}
	}
	recheck := func(last promotion.Class, ago time.Duration) promotion.Seen {
		s := at(promotion.Progressing, "a", "a")
		s.Rechecking, s.Last, s.RecheckSince = true, last, noon.Add(-ago)
		return s
	}
	for _, c := range []struct {
		name     string
		app      promotion.AppState
		previous promotion.Seen
		want     promotion.Seen
	}{
		{"being deleted", with(kustomization("True", "a", "a"),
			func(a *promotion.AppState) { a.Deleting, a.Suspended = true, true }),
			ready, unknown(promotion.Deleting)},
		{"suspended", with(kustomization("True", "a", "a"), func(a *promotion.AppState) { a.Suspended = true }), ready,
			unknown(promotion.SuspendedTarget)},
		{"reported generation behind", with(kustomization("True", "a", "a"),
			func(a *promotion.AppState) { a.Observed = 1 }), ready,
			unknown(promotion.Stale)},
		{"reported generation behind by the condition", with(kustomization("True", "a", "a"),
			func(a *promotion.AppState) { a.Observed, a.Ready.Observed = -1, 1 }), ready, unknown(promotion.Stale)},
		{"reported generation 0 is not absent", with(kustomization("True", "a", "a"),
			func(a *promotion.AppState) { a.Observed, a.Ready.Observed = 0, 2 }), ready, unknown(promotion.Stale)},
		{"no g and no Ready condition", promotion.AppState{Generation: 1, Observed: -1}, ready,
			unknown(promotion.NotReconciled)},
		{"a Ready condition but no g", with(kustomization("True", "a", "a"),
			func(a *promotion.AppState) { a.Observed = -1 }),
			promotion.Seen{}, ready},
		{"a kind that is not supported", promotion.AppState{Observed: -1, NotReconciledYet: "later"}, ready,
			unknown(promotion.NotReconciled)},
		{"malformed status", promotion.AppState{Malformed: "status.history[0]: want an object"}, ready,
			unknown(promotion.NoRevision)},
		{"Ready=True but no readable revision", kustomization("True", "", ""), ready, unknown(promotion.NoRevision)},
		{"an unfit revision, whatever Ready says", kustomization("False", "a\nb", ""), ready,
			unknown(promotion.NoRevision)},
		{"an unfit attempted revision", kustomization("False", "a", strings.Repeat("x", 257)), ready,
			unknown(promotion.NoRevision)},
		{"a revision that is not UTF-8", kustomization("True", "a\xff", "a"), ready, unknown(promotion.NoRevision)},
		{"Ready=False", kustomization("False", "a", "b"), ready, at(promotion.Failed, "a", "b")},
		{"Stalled=True", with(kustomization("True", "a", "a"),
			func(a *promotion.AppState) { a.Stalled = is("True") }), ready,
			at(promotion.Failed, "a", "a")},
		{"Ready=Unknown, attempted differs", kustomization("Unknown", "a", "b"), ready,
			at(promotion.Progressing, "a", "b")},
		{"Ready absent, nothing applied yet", kustomization("", "", "b"), promotion.Seen{},
			at(promotion.Progressing, "", "b")},
		{"Reconciling, attempted differs", with(kustomization("True", "a", "b"),
			func(a *promotion.AppState) { a.Reconciling = true }),
			ready, at(promotion.Progressing, "a", "b")},
		{"a re-check begins", kustomization("Unknown", "a", "a"), ready, recheck(promotion.Ready, 0)},
		{"a re-check of a failed one", kustomization("Unknown", "a", "a"), at(promotion.Failed, "a", "a"),
			recheck(promotion.Failed, 0)},
		{"a re-check continues", kustomization("Unknown", "a", "a"), recheck(promotion.Ready, time.Minute),
			recheck(promotion.Ready, time.Minute)},
		{"a re-check without a known class", kustomization("Unknown", "a", "a"), promotion.Seen{}, recheck("", 0)},
		{"a re-check after Unknown", kustomization("Unknown", "a", "a"), unknown(promotion.Stale), recheck("", 0)},
		{"a re-check of another revision", kustomization("Unknown", "a", "a"), at(promotion.Ready, "z", "z"),
			recheck("", 0)},
		{"no attempted field", kustomization("Unknown", "a", ""), at(promotion.Ready, "a", ""),
			at(promotion.Progressing, "a", "")},
		{"Ready=True", kustomization("True", "a", "a"), recheck(promotion.Failed, time.Minute), ready},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := promotion.Observe(c.app, promotion.Source{Type: promotion.SourceRevision}, c.previous, noon)
			got.Message = ""
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestObserveReadsVersionSources(t *testing.T) {
	t.Parallel()
	const revision = promotion.SourceRevision
	flux := func(applied, attempted string) promotion.AppState { return kustomization("True", applied, attempted) }
	for _, c := range []struct {
		name   string
		source promotion.SourceType
		app    promotion.AppState
		want   string // class applied attempted
	}{
		{"revision", revision, flux("main@sha1:0a", "main@sha1:0b"), "Ready main@sha1:0a main@sha1:0b"},
		{"tag", promotion.SourceTag, flux("v1@2@sha1:0a", "v2@sha1:0b"), "Ready v1@2 v2"},
		{"digest", promotion.SourceDigest, flux("v1@2@sha1:0a", "v2@sha1:0b"), "Ready sha1:0a sha1:0b"},
		{"tag without @", promotion.SourceTag, flux("v1", "v1"), "Unknown  "},
		{"digest of a HelmRelease", promotion.SourceDigest, helmRelease("True", "1.0.0", "deployed 1.0.0"),
			"Unknown  "},
		{"originRevision", promotion.SourceOriginRevision, with(flux("x", "x"),
			func(a *promotion.AppState) { a.AppliedOrigin = "main@sha1:0c" }), "Ready main@sha1:0c "},
		{"label", promotion.SourceLabel, with(flux("x", "x"), func(a *promotion.AppState) { a.Value = "v3" }),
			"Ready v3 "},
		{"annotation that is absent", promotion.SourceAnnotation, flux("x", "x"), "Unknown  "},
		{"marker", promotion.SourceMarker, with(flux("x", "y"),
			func(a *promotion.AppState) { a.MarkerApplied, a.MarkerAttempted = "1", "2" }), "Ready 1 2"},
		{"marker with differing values", promotion.SourceMarker, flux("x", "y"), "Unknown  "},
		{"chartVersion", promotion.SourceChartVersion, helmRelease("True", "1.0.0", "deployed 1.0.0"),
			"Ready 1.0.0 1.0.0"},
		{"chartVersion of a Kustomization", promotion.SourceChartVersion, flux("x", "x"), "Unknown  "},
		{"ociDigest", promotion.SourceOCIDigest, with(helmRelease("True", "1", "deployed 1"),
			func(a *promotion.AppState) { a.AttemptedDigest = "sha256:2" }), "Ready sha256:1 sha256:2"},
		{"appVersion", promotion.SourceAppVersion, helmRelease("True", "1", "deployed 1"), "Ready app-1 "},
		{"revision of a HelmRelease", revision, helmRelease("True", "1.0.0+0a1b", "deployed 1.0.0+0a1b"),
			"Ready 1.0.0 1.0.0"},
		{"lastAppliedRevision of a HelmRelease without a history", revision, with(flux("1.0.0+0a", "1.0.1+0b"),
			func(a *promotion.AppState) { a.Helm = true }), "Ready 1.0.0 1.0.1"},
		{"history empty", revision, helmRelease("True", ""), "Ready  "},
		{"history empty, installing", revision, helmRelease("Unknown", "1.0.0"), "Progressing  1.0.0"},
		{"newest uninstalled", revision, helmRelease("True", "1.0.0", "uninstalled 1.0.0", "deployed 0.9.0"),
			"Failed  1.0.0"},
		{"newest deployed, upgrading", revision, helmRelease("Unknown", "1.1.0", "deployed 1.0.0"),
			"Progressing 1.0.0 1.1.0"},
		{"newest deployed, another chart failed", revision, helmRelease("False", "1.1.0", "deployed 1.0.0"),
			"Failed 1.0.0 1.1.0"},
		{"newest failed", revision, helmRelease("Unknown", "1.1.0", "failed 1.1.0"), "Failed 1.1.0 1.1.0"},
		{"newest failed, remediated", revision, helmRelease("True", "1.1.0", "failed 1.1.0", "superseded 1.0.1",
			"deployed 1.0.0"),
			"Failed 1.0.0 1.1.0"},
		{"any other status", revision, helmRelease("Unknown", "1.1.0", "pending-upgrade 1.1.0", "deployed 1.0.0"),
			"Progressing 1.0.0 1.1.0"},
		{"any other status, none deployed", revision, helmRelease("Unknown", "1.1.0", "pending-install 1.1.0"),
			"Progressing  1.1.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := promotion.Observe(c.app, promotion.Source{Type: c.source}, promotion.Seen{}, noon)
			got := string(s.Class) + " " + string(s.Applied) + " " + string(s.Attempted)
			if got != c.want {
				t.Errorf("got %q, want %q (%s)", got, c.want, s.Message)
			}
		})
	}
}

func TestKeepBuildKeepsMetadataOfCharts(t *testing.T) {
	t.Parallel()
	app := helmRelease("True", "1.0.0+b", "deployed 1.0.0+a")
	s := promotion.Observe(app, promotion.Source{Type: promotion.SourceRevision, KeepBuild: true}, promotion.Seen{},
		noon)
	if s.Applied != "1.0.0+a" || s.Attempted != "1.0.0+b" {
		t.Errorf("got %q and %q, want the metadata", s.Applied, s.Attempted)
	}
}

// TestRecheckOfAHelmReleaseComparesChartVersions: the deprecated field of the object decides nothing.
func TestRecheckOfAHelmReleaseComparesChartVersions(t *testing.T) {
	t.Parallel()
	app := helmRelease("Unknown", "1.0.0+0a", "deployed 1.0.0+0a")
	app.HasApplied, app.Applied = true, "0.1.0"
	source := promotion.Source{Type: promotion.SourceAppVersion}
	s := promotion.Observe(app, source, promotion.Seen{Class: promotion.Ready, Applied: "app-1.0.0+0a"}, noon)
	if !s.Rechecking || s.Last != promotion.Ready {
		t.Errorf("got %+v, want a re-check", s)
	}
}

func TestRecheckKeepsTheClassForAWhile(t *testing.T) {
	t.Parallel()
	s := promotion.Seen{Class: promotion.Progressing, Rechecking: true, Last: promotion.Ready, RecheckSince: noon}
	end := noon.Add(5 * time.Minute)
	if c, kept, until := s.At(end.Add(-time.Nanosecond)); c != promotion.Ready || !kept || !until.Equal(end) {
		t.Errorf("before its end: got %s %v %v", c, kept, until)
	}
	if c, kept, _ := s.At(end); c != promotion.Progressing || kept {
		t.Errorf("at its end: got %s %v", c, kept)
	}
	if c, kept, _ := (promotion.Seen{}).At(noon); c != promotion.Unknown || kept {
		t.Errorf("the zero value: got %s %v", c, kept)
	}
}

func TestMessagesAreCutAtACharacter(t *testing.T) {
	t.Parallel()
	s := promotion.UnknownTarget(promotion.NotSynced, strings.Repeat("ü", 200))
	if len(s.Message) != 256 {
		t.Errorf("got %d bytes, want 256", len(s.Message))
	}
	if s = promotion.UnknownTarget(promotion.NotSynced, "a"+strings.Repeat("ü", 200)); len(s.Message) != 255 {
		t.Errorf("got %d bytes, want 255", len(s.Message))
	}
	app := kustomization("False", "a", "a")
	app.Ready.Reason, app.Ready.Message = "BuildFailed", "no such file"
	if s = promotion.Observe(app, promotion.Source{}, promotion.Seen{},
		noon); s.Message != "BuildFailed: no such file" {
		t.Errorf("got %q", s.Message)
	}
}
