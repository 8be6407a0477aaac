package promotion_test

import (
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// FuzzObserve reads states of objects that anyone may have written. Whatever they contain, the result has bounds, and
// deciding on it ends.
func FuzzObserve(f *testing.F) {
	sources := []promotion.SourceType{"", promotion.SourceRevision, promotion.SourceTag, promotion.SourceDigest,
		promotion.SourceChartVersion, promotion.SourceOCIDigest, promotion.SourceAppVersion,
		promotion.SourceOriginRevision,
		promotion.SourceLabel, promotion.SourceAnnotation, promotion.SourceMarker, "else"}
	for _, app := range []promotion.AppState{{}, kustomization("True", "a@b", "b@"),
		kustomization("False", "\x00", "é"),
		helmRelease("Unknown", "1.0.0", "failed 1.0.0+x", "deployed 0.9.0"), helmRelease("True", "", "uninstalled "),
		{Observed: -1, Ready: promotion.Condition{Status: "Maybe", Observed: -3}, HasAttempted: true}} {
		text, err := json.Marshal(app)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text), uint8(1), true)
	}
	f.Fuzz(func(t *testing.T, text string, source uint8, keepBuild bool) {
		var app promotion.AppState
		if json.Unmarshal([]byte(text), &app) != nil {
			app = promotion.AppState{Applied: text, Attempted: text, Value: text, MarkerApplied: text,
				AppliedOrigin: text,
				Ready:         promotion.Condition{Status: "True", Message: text}, HasHistory: keepBuild,
				History: []promotion.Release{{Status: "deployed", ChartVersion: text, AppVersion: text,
					OCIDigest: text}}}
		}
		from := promotion.Source{Type: sources[int(source)%len(sources)], KeepBuild: keepBuild}
		seen := promotion.Observe(app, from, promotion.Seen{}, noon)
		again := promotion.Observe(app, from, seen, noon.Add(time.Minute))
		if again.Class != seen.Class || again.Applied != seen.Applied || again.Attempted != seen.Attempted {
			t.Errorf("first %+v, then %+v", seen, again)
		}
		checkSeen(t, seen)
		w := newWorld().sees("staging=a prod=a")
		w.Seen[promotion.TargetID{Namespace: "dev"}] = seen
		w.settle(t)
	})
}

// checkSeen checks the bounds of a state.
func checkSeen(t *testing.T, s promotion.Seen) {
	t.Helper()
	if len(s.Message) > 256 {
		t.Errorf("the message has %d bytes", len(s.Message))
	}
	switch s.Class {
	case promotion.Ready, promotion.Failed, promotion.Progressing:
	case promotion.Unknown:
		if s.Why == "" || s.Applied != "" || s.Attempted != "" {
			t.Errorf("unknown without a reason, or with a revision: %+v", s)
		}
	default:
		t.Errorf("class %q", s.Class)
	}
	for _, r := range []promotion.Revision{s.Applied, s.Attempted} {
		if len(r) > 256 || !utf8.ValidString(string(r)) {
			t.Errorf("revision %q", r)
		}
		for _, c := range r {
			if c < ' ' || c == 0x7f || c == 0x2028 {
				t.Errorf("revision %q", r)
			}
		}
	}
}
