package callback

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
)

var finished = time.Date(2026, 11, 20, 10, 0, 5, 0, time.UTC)

// mirror returns a job that was successful.
func mirror(input, output string) Job {
	return Job{
		Action: action.Action{ID: action.DerivedID(finished.Add(-time.Minute), "mirror"), Kind: "job", Name: "mirror",
			Version: 2, Trace: "00-1-2-01"},
		Status: action.Successful, StartedAt: finished.Add(-3 * time.Second), FinishedAt: finished,
		Input: json.RawMessage(input), Output: json.RawMessage(output),
	}
}

// publish returns a handler that takes anything but a parameter of the name "bad"; "zone" has a
// default.
func publish() Target {
	return Target{Handler: "publish", Optional: func(name string) bool { return name == "zone" },
		Prepare: func(raw json.RawMessage) (action.Action, error) {
			if strings.Contains(string(raw), `"bad"`) {
				return action.Action{}, errors.New(`unknown parameter "bad"`)
			}
			return action.Action{Kind: "action", Name: "publish", Handler: "publish", Lane: "publish/x", Parameters: raw}, nil
		}}
}

func path(t *testing.T, name, text string) Parameter {
	t.Helper()
	p, err := ParsePath(text)
	if err != nil {
		t.Fatal(err)
	}
	return Parameter{Name: name, Path: p}
}

func ends(t *testing.T, names ...string) (e Ends) {
	t.Helper()
	for _, name := range names {
		if err := e.Add(name); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

func filter(t *testing.T, text string) *Filter {
	t.Helper()
	f, err := ParseFilter(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// short returns a plan in one line each: index-free ids are checked elsewhere.
func short(planned []Planned) (lines []string) {
	for _, p := range planned {
		line := fmt.Sprintf("%s %s %s %s", p.Action.Kind, p.Action.Name, p.Action.Handler, p.Action.Parameters)
		if p.Fault != "" {
			line = fmt.Sprintf("FAILED %s %s: %s", p.Action.Name, p.Code, p.Fault)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestParametersComeFromPathsAndValues(t *testing.T) {
	t.Parallel()
	job := mirror(`{"payload": {"ids": [12345678901234567890, 1.50]}}`, `{"features": []}`)
	c := Callback{Name: "trigger", Target: publish(), When: ends(t, "successful"), Parameters: []Parameter{
		path(t, "one", "$.input.payload.ids[0]"), path(t, "many", ".input.payload.ids[*]"), path(t, "zone", "$.output.zone"),
		path(t, "status", "$.workflow['status','name','version','startedAt','finishedAt','error']"),
		{Name: "fixed", Value: map[string]any{"n": json.Number("1e2")}},
	}}
	want := []string{`callback trigger publish {"fixed":{"n":1e2},"many":[12345678901234567890,1.50],"one":12345678901234567890,` +
		`"status":["SUCCESSFUL","mirror",2,"2026-11-20T10:00:02Z","2026-11-20T10:00:05Z",""]}`}
	planned := Plan(job, []Callback{c})
	if diff := cmp.Diff(want, short(planned)); diff != "" {
		t.Error(diff)
	}
	a := planned[0].Action
	if a.ParentID != job.Action.ID || !a.ID.Time().Equal(job.Action.ID.Time()) || a.Trace != job.Action.Trace || a.Lane != "publish/x" {
		t.Errorf("its place: %+v", a)
	}
}

// TestThePathAloneDecidesTheType: a singular path gives the value of its node, any other one a
// list, however many nodes there are.
func TestThePathAloneDecidesTheType(t *testing.T) {
	t.Parallel()
	output := `{"features": [{"id": "a", "gsd": 0.5}, {"id": "b", "gsd": 3}, {"id": "c", "gsd": 0.1}], "name": "x", "deep": [[1, 2], [3]]}`
	items := func(name, of, from, keep string) Parameter {
		p, list := path(t, name, of), path(t, "", from)
		p.Items = &Items{From: list.Path, Filter: filter(t, keep)}
		return p
	}
	for _, c := range []struct {
		parameter Parameter
		want      string
	}{
		{path(t, "p", "$.output.features[?@.gsd < 1].id"), `callback x publish {"p":["a","c"]}`},
		{path(t, "p", "$.output.features[?@.gsd > 1]"), `callback x publish {"p":[{"gsd":3,"id":"b"}]}`},
		{path(t, "p", "$.output.features[?@.gsd > 9]"), `callback x publish {"p":[]}`},
		{path(t, "zone", "$.output.features[?@.gsd > 9]"), `callback x publish {"zone":[]}`},
		{path(t, "p", "$..nothing"), `callback x publish {"p":[]}`},
		{path(t, "p", "$.output.deep[0]"), `callback x publish {"p":[1,2]}`},
		{path(t, "p", "$.output.deep[0:1]"), `callback x publish {"p":[[1,2]]}`},
		{path(t, "p", "$.output.name"), `callback x publish {"p":"x"}`},
		{path(t, "zone", "$.output.nothing"), `callback x publish {}`},
		{path(t, "p", "$.output.nothing"), `FAILED x invalid_parameters: parameter "p": $["output"]["nothing"] selects nothing`},
		{items("p", "$.output", "$.features", "feature.gsd < 1.0"),
			`callback x publish {"p":{"deep":[[1,2],[3]],"features":[{"gsd":0.5,"id":"a"},{"gsd":0.1,"id":"c"}],"name":"x"}}`},
		{items("p", "$.output", "$.features", "@.gsd > 9"), `callback x publish {"p":{"deep":[[1,2],[3]],"features":[],"name":"x"}}`},
		{items("p", "$.output", "$.deep[-1]", "feature == 4.0"),
			`callback x publish {"p":{"deep":[[1,2],[]],"features":[{"gsd":0.5,"id":"a"},{"gsd":3,"id":"b"},{"gsd":0.1,"id":"c"}],"name":"x"}}`},
		{items("p", "$.output.features", "$", "feature.gsd > input.least"), `callback x publish {"p":[{"gsd":3,"id":"b"}]}`},
		{items("zone", "$.output", "$.name", "true"),
			`FAILED x invalid_parameters: parameter "zone": $["output"] with the items of $["name"]: does not select a list`},
		{items("zone", "$.output", "$.deep[2]", "true"),
			`FAILED x invalid_parameters: parameter "zone": $["output"] with the items of $["deep"][2]: does not select a list`},
		{items("p", "$.output", "$.features", "feature.cloud < 1.0"),
			`FAILED x invalid_parameters: parameter "p": $["output"] with the items of $["features"]: filter on item 0: no such key: cloud`},
	} {
		cb := Callback{Name: "x", Target: publish(), When: ends(t, "successful"), Parameters: []Parameter{c.parameter}}
		job := mirror(`{"least": 1}`, output)
		if diff := cmp.Diff([]string{c.want}, short(Plan(job, []Callback{cb, cb})[:1])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.parameter.Path, diff)
		}
		if string(job.Output) != output {
			t.Errorf("the output is now %s", job.Output)
		}
	}
	many := mirror(`{}`, `{"features": [`+strings.Repeat("1,", maxFeatures)+`1]}`)
	cb := Callback{Name: "x", Target: publish(), When: ends(t, "successful"),
		Parameters: []Parameter{items("p", "$.output", "$.features", "true")}}
	want := `FAILED x invalid_parameters: parameter "p": $["output"] with the items of $["features"]: it has 10001 items; a filter takes at most 10000`
	if got := short(Plan(many, []Callback{cb})); got[0] != want {
		t.Errorf("got %s", got)
	}
}

func TestFeaturesAreCalledBackForByIndex(t *testing.T) {
	t.Parallel()
	job := mirror(`{"limit": 1}`, `{"features": [{"id": "a", "gsd": 0.5}, {"id": "b", "gsd": 3}, {"id": "c", "gsd": 0.1}]}`)
	c := Callback{Name: "trigger", Target: publish(), PerFeature: true, When: ends(t, "SUCCESSFUL"),
		Parameters: []Parameter{path(t, "feature", "$.feature.id")}}
	all := Plan(job, []Callback{c})
	if diff := cmp.Diff([]string{`callback trigger publish {"feature":"a"}`, `callback trigger publish {"feature":"b"}`,
		`callback trigger publish {"feature":"c"}`}, short(all)); diff != "" {
		t.Error(diff)
	}
	c.Filter = filter(t, "feature.gsd < 1.0 && feature.gsd < input.limit")
	some := Plan(job, []Callback{c})
	if len(some) != 2 || some[0].Action.ID != all[0].Action.ID || some[1].Action.ID != all[2].Action.ID {
		t.Errorf("a filter changes ids: %v", short(some))
	}
}

func TestFaultsFailTheirCallbackAlone(t *testing.T) {
	t.Parallel()
	always := ends(t, "!canceled")
	good := Callback{Name: "good", Target: publish(), When: always}
	chain := Callback{Name: "chain", When: always, Target: Target{Handler: "argo", Process: "next",
		Prepare: func(raw json.RawMessage) (action.Action, error) {
			return action.Action{Kind: "job", Name: "next", Handler: "argo", Parameters: raw}, nil
		}}}
	per := func(f *Filter, parameters ...Parameter) Callback {
		return Callback{Name: "per", Target: publish(), When: always, PerFeature: true, Filter: f, Parameters: parameters}
	}
	many := `{"features": [` + strings.Repeat("1,", maxFeatures) + `1]}`
	costly := `{"features": [[` + strings.Repeat("1,", 2000) + `1]]}`
	deep := mirror("", "{}")
	deep.Depth = maxDepth - 1
	failed := mirror("", `{"features": [1]}`)
	failed.Status, failed.Error = action.Failed, "exit 1"
	for name, c := range map[string]struct {
		job  Job
		with Callback
		want []string
	}{
		"no node": {mirror("", "{}"), Callback{Name: "x", Target: publish(), When: always, Parameters: []Parameter{path(t, "p", "$.input.q")}},
			[]string{`FAILED x invalid_parameters: parameter "p": $["input"]["q"] selects nothing`}},
		"schema": {mirror("", "{}"), Callback{Name: "x", Target: publish(), When: always, Parameters: []Parameter{{Name: "bad"}}},
			[]string{`FAILED x invalid_parameters: unknown parameter "bad"`}},
		"no features": {mirror("", `{"features": {}}`), per(nil),
			[]string{"FAILED per no_features: $.output.features is not a list of features"}},
		"no output of a failed job": {failed, per(nil),
			[]string{"FAILED per no_features: $.output.features is not a list of features"}},
		"too many": {mirror("", many), per(nil),
			[]string{"FAILED per too_many_features: $.output.features has 10001 elements; at most 10000 are called back for"}},
		"a feature without it": {mirror("", `{"features": [{"n": 1}, {}, {"n": "x"}, {"n": 3}]}`), per(filter(t, "feature.n > 2.0")), []string{
			"FAILED per filter: featureFilter on feature 1: no such key: n", "FAILED per filter: featureFilter on feature 2: no such overload",
			"callback per publish {}"}},
		"costs too much": {mirror("", costly), per(filter(t, "feature.all(a, feature.all(b, b == a))")),
			[]string{"FAILED per filter: featureFilter on feature 0: operation cancelled: actual cost limit exceeded"}},
		"no JSON": {mirror("{", "{}"), Callback{Name: "x", Target: publish(), When: always},
			[]string{"FAILED x document: the input of the job is not valid JSON: unexpected EOF",
				"FAILED good document: the input of the job is not valid JSON: unexpected EOF"}},
		"a chain": {mirror("", "{}"), chain, []string{"job next argo {}"}},
		"a long chain": {deep, chain,
			[]string{"FAILED chain chain_too_deep: 32 jobs have started each other in a row, process next would be the next: is it a circle?"}},
		"another end":   {mirror("", "{}"), Callback{Name: "x", When: ends(t, "failed")}, nil},
		"disabled":      {mirror("", "{}"), Callback{Name: "x", When: always, Disabled: true}, nil},
		"every feature": {mirror("", `{"features": []}`), per(nil), nil},
	} {
		want := c.want
		if name != "no JSON" {
			want = append(want, "callback good publish {}")
		}
		if diff := cmp.Diff(want, short(Plan(c.job, []Callback{c.with, good}))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestLevelsOfAChainAreBounded: a job has as many actions after its end as leave its level within
// the bound, if all jobs beside it have as many. The callback that would exceed it fails as a
// whole, and the others are planned.
func TestLevelsOfAChainAreBounded(t *testing.T) {
	t.Parallel()
	next := Target{Handler: "argo", Process: "next", Prepare: func(json.RawMessage) (action.Action, error) {
		return action.Action{Kind: "job", Name: "next", Handler: "argo"}, nil
	}}
	per := func(name string, target Target) Callback {
		return Callback{Name: name, Target: target, PerFeature: true, When: ends(t, "successful")}
	}
	trigger := Callback{Name: "trigger", Target: publish(), When: ends(t, "successful")}
	for _, c := range []struct {
		name            string
		width, features int
		callbacks       []Callback
		want            map[string]int // actions by name, code and width
	}{
		{"the first job", 0, 10_000, []Callback{per("per", next), trigger}, map[string]int{"next  10000": 10_000, "trigger  0": 1}},
		{"up to the bound", 10_000, 9, []Callback{per("per", next), trigger}, map[string]int{"next  90000": 9, "trigger  0": 1}},
		{"beyond it", 10_000, 10, []Callback{per("per", next), trigger}, map[string]int{"next  100000": 10, "trigger chain_too_wide 0": 1}},
		{"far beyond it", 10_000, 11, []Callback{per("per", next), trigger}, map[string]int{"per chain_too_wide 0": 1, "trigger  0": 1}},
		{"calls count", 60_000, 2, []Callback{per("per", publish()), trigger}, map[string]int{"per chain_too_wide 0": 1, "trigger  0": 1}},
		{"calls widen no chain", 10_000, 1, []Callback{trigger, per("more", publish()), per("per", next)},
			map[string]int{"trigger  0": 1, "more  0": 1, "next  10000": 1}},
		{"no features", maxLevel, 0, []Callback{per("per", next)}, map[string]int{}},
	} {
		job := mirror("", `{"features": [`+strings.TrimSuffix(strings.Repeat("1,", c.features), ",")+`]}`)
		job.Action.Width = c.width
		got := map[string]int{}
		for _, p := range Plan(job, c.callbacks) {
			got[fmt.Sprintf("%s %s %d", p.Action.Name, p.Code, p.Action.Width)]++
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
	wide := mirror("", `{"features": [1, 2]}`)
	wide.Action.Width = 60_000
	want := []string{"FAILED per chain_too_wide: 2 actions after this job, and as many after each job beside it, would be " +
		"120000 at this level of the chain; " +
		"at most 100000 are allowed: select fewer features here or earlier in the chain"}
	if diff := cmp.Diff(want, short(Plan(wide, []Callback{per("per", next)}))); diff != "" {
		t.Error(diff)
	}
}

// TestChainsStayWithinTheBound: whatever every job of a chain makes, no level of it exceeds the
// bound.
func TestChainsStayWithinTheBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		next := Target{Handler: "argo", Process: "next",
			Prepare: func(json.RawMessage) (action.Action, error) { return action.Action{Kind: "job", Name: "next"}, nil }}
		always := ends(t, "successful")
		callbacks := []Callback{{Name: "per", Target: next, PerFeature: true, When: always},
			{Name: "calls", Target: publish(), PerFeature: true, When: always}}
		jobs := map[int]int{0: 1} // how many jobs of a level have a width
		for range rapid.IntRange(1, 8).Draw(r, "levels") {
			level, made := 0, map[int]int{}
			for _, width := range slices.Sorted(maps.Keys(jobs)) {
				n := jobs[width]
				features := rapid.SampledFrom([]int{0, 1, 2, 7, 50, 1000}).Draw(r, "features")
				job := mirror("", `{"features": [`+strings.TrimSuffix(strings.Repeat("1,", features), ",")+`]}`)
				job.Action.Width = width
				for _, p := range Plan(job, callbacks) {
					if p.Fault == "" {
						level += n
					}
					if p.Link != "" {
						made[p.Action.Width] += n
					}
				}
			}
			if jobs = made; level > maxLevel {
				r.Fatalf("a level has %d actions", level)
			}
		}
	})
}

// TestFeaturesAreLookedAtByThemselves: the cost of a callback does not grow with the features times their document,
// and the paths that look at all of it for each feature share one bound.
func TestFeaturesAreLookedAtByThemselves(t *testing.T) {
	t.Parallel()
	features := strings.Repeat(`{"id": "x", "list": [1, 2, 3]}, `, maxFeatures-1) + `{"id": "x", "list": [1, 2, 3]}`
	job := mirror("", `{"features": [`+features+`], "deep": `+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+`}`)
	each := Callback{Name: "each", PerFeature: true, When: ends(t, "successful"), Target: publish()}
	for text, want := range map[string]int{"$.feature.id": maxFeatures, "$.feature.list[*]": maxFeatures, "$.feature..id": maxFeatures,
		"$.output.features[?@.id == 'y']": 1} {
		each.Parameters = []Parameter{path(t, "p", text)}
		planned := Plan(job, []Callback{each})
		if len(planned) != want || (want == 1) != strings.Contains(planned[0].Fault, "looks at too many nodes") {
			t.Errorf("%s: %d actions, want %d; the first: %s", text, len(planned), want, planned[0].Fault)
		}
	}
	root, list := path(t, "p", "$.output"), path(t, "", "$.features")
	root.Items = &Items{From: list.Path, Filter: filter(t, "feature.id == 'y'")}
	each.Parameters = []Parameter{root}
	if planned := Plan(job, []Callback{each}); len(planned) != 1 || !strings.Contains(planned[0].Fault, "asks the filter about more than") {
		t.Errorf("items of each feature: %d actions; the first: %s", len(planned), planned[0].Fault)
	}
}

func TestWhenNamesEnds(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		"successful":               "SUCCESSFUL",
		"FAILED,Canceled":          "FAILED CANCELED",
		"!successful":              "FAILED CANCELED TIMED_OUT INVALID RETRIES_EXHAUSTED",
		"!successful,!failed":      "CANCELED TIMED_OUT INVALID RETRIES_EXHAUSTED",
		"!failed,successful":       "SUCCESSFUL CANCELED TIMED_OUT INVALID RETRIES_EXHAUSTED",
		"retries_exhausted":        "RETRIES_EXHAUSTED",
		"timed_out,!canceled":      "SUCCESSFUL FAILED TIMED_OUT INVALID RETRIES_EXHAUSTED",
		"failed,!failed":           "error: failed contradicts !failed",
		"!FAILED,failed":           "error: failed contradicts !failed",
		"running":                  `error: "running" is not an end state`,
		"!":                        `error: "!" is not an end state`,
		"!!failed":                 `error: "!!failed" is not an end state`,
		"successful,done":          `error: "done" is not an end state`,
		"failed,successful,failed": "SUCCESSFUL FAILED",
	} {
		var e Ends
		var got []string
		for _, one := range strings.Split(text, ",") {
			if one == "" {
				continue
			}
			if err := e.Add(one); err != nil {
				got = []string{"error:", err.Error()}
				break
			}
		}
		if len(got) == 0 {
			for s := action.Pending; s <= action.RetriesExhausted; s++ {
				if e.Has(s) {
					got = append(got, s.String())
				}
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", text, strings.Join(got, " "), want)
		}
	}
	for text, want := range map[string]bool{"failed": true, "failed,retries_exhausted": false, "!successful": false,
		"failed,!retries_exhausted": false, "!retries_exhausted": false, "successful": false} {
		if got := ends(t, strings.Split(text, ",")...).Forgets(); got != want {
			t.Errorf("%q forgets exhausted retries: %v", text, got)
		}
	}
}

// TestPlanTwiceIsPlanOnce: whatever the job and the callbacks are, and no two actions of a plan are
// the same one.
func TestPlanTwiceIsPlanOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		features := rapid.SliceOfN(rapid.SampledFrom([]string{`1`, `{"n": 1}`, `{"n": "x"}`, `null`}), 0, 20).Draw(r, "features")
		job := mirror(rapid.SampledFrom([]string{`{"a": 1}`, ``, `{`}).Draw(r, "input"), `{"features": [`+strings.Join(features, ",")+`]}`)
		job.Status = action.Status(rapid.IntRange(int(action.Successful), int(action.RetriesExhausted)).Draw(r, "status"))
		job.Depth = rapid.IntRange(0, maxDepth).Draw(r, "depth")
		var callbacks []Callback
		for i := range rapid.IntRange(0, 4).Draw(r, "callbacks") {
			c := Callback{Name: fmt.Sprint("c", i), Target: publish(), PerFeature: rapid.Bool().Draw(r, "perFeature"),
				When: ends(t, rapid.SampledFrom([]string{"successful", "!successful", "!canceled"}).Draw(r, "when"))}
			if rapid.Bool().Draw(r, "process") {
				c.Target.Process = "next"
			}
			if rapid.Bool().Draw(r, "filtered") {
				c.Filter = filter(t, rapid.SampledFrom([]string{"feature.n == 1.0", "@.n == 1", "true"}).Draw(r, "filter"))
			}
			if rapid.Bool().Draw(r, "parameter") {
				c.Parameters = []Parameter{path(t, "p", rapid.SampledFrom([]string{"$.feature", "$.input.a", "$.workflow.status"}).Draw(r, "path"))}
			}
			callbacks = append(callbacks, c)
		}
		once, twice := Plan(job, callbacks), Plan(job, callbacks)
		if diff := cmp.Diff(once, twice); diff != "" {
			r.Fatalf("planned twice (-once +twice):\n%s", diff)
		}
		seen := map[action.ID]bool{}
		for _, p := range once {
			if seen[p.Action.ID] || p.Action.ParentID != job.Action.ID || !p.Action.ID.Time().Equal(job.Action.ID.Time()) {
				r.Fatalf("the place of %s: %+v", p.Action.Name, p.Action)
			}
			seen[p.Action.ID] = true
		}
	})
}
