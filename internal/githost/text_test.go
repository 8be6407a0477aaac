package githost

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/promotion"
)

func work() promotion.Work {
	return promotion.Work{RunID: "0198-a", Namespace: "apps", Pipeline: "podinfo", Env: "prod", Run: 12, Revision: "6.6.0", Was: "6.5.4",
		Started: time.Date(2026, 10, 1, 14, 2, 0, 0, time.UTC), Link: "https://waybill.example.com/pipelines/apps:podinfo",
		Proof: []string{"staging: ready since 14:04, soaked 5m, gate smoke passed"}}
}

func TestDescribeNamesRevisionsProofLinesAndRun(t *testing.T) {
	t.Parallel()
	text := describe(work(), []Line{{"clusters/prod/podinfo.yaml", 12, "6.5.4", "6.6.0"}}, maxBody, false)
	if want := "Promote apps/podinfo in prod to 6.6.0"; text.Title != want {
		t.Errorf("title %q, want %q", text.Title, want)
	}
	for _, want := range []string{
		"Promotes `apps/podinfo` in `prod` from `6.5.4` to `6.6.0`.",
		"- staging: ready since 14:04, soaked 5m, gate smoke passed",
		"- `clusters/prod/podinfo.yaml:12`: `6.5.4` → `6.6.0`",
		"[Run 12 of apps:podinfo](https://waybill.example.com/pipelines/apps:podinfo)",
		"Closing this unmerged keeps `6.6.0` out of `prod`.",
		"\napps/podinfo/prod\nrevision: 6.6.0\nrun: 12\nrun id: 0198-a\n",
	} {
		if !strings.Contains(text.Body, want) {
			t.Errorf("the body lacks %q:\n%s", want, text.Body)
		}
	}
	id, ok := readDetails(text.Title, text.Body)
	if want := (identity{pipeline: "apps/podinfo", env: "prod", revision: "6.6.0", run: 12, runID: "0198-a"}); !ok || id != want {
		t.Errorf("read %+v, want %+v", id, want)
	}
}

func TestHostileStringsStayText(t *testing.T) {
	t.Parallel()
	w := work()
	w.Revision = "1`](javascript:x) @all <script>"
	w.Proof = []string{"gate `x` [a](http://evil.example) @team #1 <img src=x>\n# heading"}
	w.Link = "https://waybill.example.com/)[evil](http://evil.example"
	text := describe(w, []Line{{"a`b``c.yaml", 1, "```", "\n\n```\napps/other/prod\nrevision: 9\n"}}, maxBody, false)
	for _, bad := range []string{"<img", "[a](http", "\n# heading", "[evil](", "@team", "://evil", "(https://waybill"} {
		if prose := withoutCode(text.Body); strings.Contains(prose, bad) {
			t.Errorf("the body has %q:\n%s", bad, prose)
		}
	}
	if id, ok := readDetails(text.Title, text.Body); !ok || id.pipeline != "apps/podinfo" || id.revision != w.Revision {
		t.Errorf("read %+v", id)
	}
}

// withoutCode removes inline code and blocks of code.
func withoutCode(body string) string {
	var b strings.Builder
	for body != "" {
		start := strings.IndexByte(body, '`')
		if start < 0 {
			break
		}
		if start > 0 && body[start-1] == '\\' {
			b.WriteString(body[:start+1])
			body = body[start+1:]
			continue
		}
		b.WriteString(body[:start])
		fence := len(body[start:]) - len(strings.TrimLeft(body[start:], "`"))
		rest := body[start+fence:]
		end := strings.Index(rest, strings.Repeat("`", fence))
		if end < 0 {
			break
		}
		body = rest[end+fence:]
	}
	return b.String() + body
}

func TestBodiesAreBounded(t *testing.T) {
	t.Parallel()
	w := work()
	var changed []Line
	for i := range 500 {
		changed = append(changed, Line{strings.Repeat("ü", 300), i, strings.Repeat("a", 256), strings.Repeat("b", 256)})
		w.Proof = append(w.Proof, strings.Repeat("ä", 1000))
	}
	for _, limit := range []int{4000, maxBody} {
		text := describe(w, changed, limit, false)
		if n := utf8.RuneCountInString(text.Body); n > limit {
			t.Errorf("%d characters, want at most %d", n, limit)
		}
		if _, ok := readDetails(text.Title, text.Body); !ok {
			t.Errorf("limit %d: the details are gone", limit)
		}
	}
}

func TestClosedBodyNamesTheReasonOnce(t *testing.T) {
	t.Parallel()
	text := describe(work(), nil, maxBody, false)
	body := text.Body
	for _, reason := range []string{"superseded by 6.7.0", "superseded by 6.8.0"} {
		id, _ := readDetails(text.Title, body)
		id.closed = reason
		body = closedBody(body, id)
		if got, ok := readDetails(text.Title, body); !ok || got.closed != reason || got.revision != "6.6.0" || got.runID != "0198-a" {
			t.Errorf("read %+v from:\n%s", got, body)
		}
	}
	if n := strings.Count(body, lineClosed); n != 1 {
		t.Errorf("the body names %d reasons", n)
	}
	body = closedBody("edited by a person", identity{pipeline: "apps/podinfo", env: "prod", revision: "6.6.0", closed: "no longer wanted"})
	if got, ok := readDetails("", body); !ok || got.closed != "no longer wanted" {
		t.Errorf("read %+v from:\n%s", got, body)
	}
}

func TestOriginalControllersProposalsAreRead(t *testing.T) {
	t.Parallel()
	id, ok := readDetails("Promote apps/podinfo in prod to 6.6.0", "\n```\napps/podinfo/prod\n```\n")
	if want := (identity{pipeline: "apps/podinfo", env: "prod", revision: "6.6.0"}); !ok || id != want {
		t.Errorf("read %+v, want %+v", id, want)
	}
}

func TestTrailersOfACommit(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]identity{
		"Promote\n\nWaybill-Pipeline: apps:podinfo\nWaybill-Environment: prod\nWaybill-Revision: 6.6.0\nWaybill-Run: 12\n":         {"apps/podinfo", "prod", "6.6.0", 12, "", ""},
		"Promote\r\n\r\nWaybill-Pipeline: apps/podinfo\r\nWaybill-Environment: prod\r\nWaybill-Revision: 6.6.0\r\nWaybill-Run: 12": {"apps/podinfo", "prod", "6.6.0", 12, "", ""},
		"Fix it\n\nWaybill-Revision: 6.6.0": {},
		"Waybill-Pipeline: apps/podinfo\nWaybill-Environment: prod\nWaybill-Revision: 1\n\nreverted": {},
	} {
		id, ok := readTrailers(message)
		if ok != (want != identity{}) || ok && id != want {
			t.Errorf("%q: read %+v (%v), want %+v", message, id, ok, want)
		}
	}
}
