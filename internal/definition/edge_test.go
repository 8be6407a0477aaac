package definition_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// TestFilesAsEditorsAndMergesLeaveThem: each is a file that people have sent in.
func TestFilesAsEditorsAndMergesLeaveThem(t *testing.T) {
	t.Parallel()
	sound := testPipeline(test, beta)
	check(t, []fragment{
		{"", "1:1: the file is empty"},
		{" \n\n", "1:1: the file is empty"},
		{"# pipeline: p\n", "1:1: the file is empty"},
		{"---\n" + sound, ""},
		{sound + "...\n", ""},
		{sound + "---\n", "6:1: a second document starts here; the file may have one only"},
		{sound + "---\n" + sound, "6:1: a second document starts here; the file may have one only"},
		{"\ufeff" + sound, ""},
		{strings.ReplaceAll(sound, "\n", "\r\n"), ""},
		{strings.TrimSuffix(sound, "\n"), ""},
		{"pipeline\n", "1:1: want a mapping, found a string"},
		{"- pipeline: p\n", "1:1: want a mapping, found a list"},
		{"pipeline: p\nstages:\n\t- name: a\n", "3:1: a tab cannot indent; use spaces"},
		{"pipeline: p\t\nstages:\t[{name: a, hosts: []}]\n", ""},
		{"<<<<<<< HEAD\n" + sound, "2:9: mapping values are not allowed in this context"},
		{
			"pipeline: p\npipeline: q\n" + test + "stages: [{name: a, hosts: []}]\n",
			`2:1: the key "pipeline" is already at 1:1`,
		},
		{"pipeline: \"p\n", "1:11: found unexpected end of stream"},
		{"pipeline: p\nstages: [{name: a, hosts: [}]\n", "2:28: did not find expected node content"},
		{"pipeline: p\nstages: ~\n", "2:9: want a list of mappings, found nothing"},
		{"pipeline: p\nstages:\n", "2:8: want a list of mappings, found nothing"},
		{"pipeline: p\nstages: [a]\n", "2:10: want a mapping, found a string"},
		{"pipeline: p\nstages: {a: b}\n", "2:9: want a list of mappings, found a mapping"},
		{"Pipeline: p\n" + test + "stages: [{name: a, hosts: []}]\n", "1:1: the file needs a pipeline\n" +
			`1:1: unknown key "Pipeline" (did you mean "pipeline"?)`},
		{
			"pipeline: 5\n" + test + "stages: [{name: a, hosts: []}]\n",
			`1:11: want a string, found a number; write "5" in quotes`,
		},
		{"pipeline: \"5\"\n" + test + "stages: [{name: a, hosts: []}]\n", ""},
		{"pipeline: ~\n" + test + "stages: [{name: a, hosts: []}]\n", "1:11: want a string, found nothing"},
		{"pipeline: ''\n" + test + "stages: [{name: a, hosts: []}]\n", `1:11: "pipeline" must not be empty` + "\n" +
			`1:11: pipeline name "": a-z, 0-9 and "-" only, at most 63`},
		{
			"pipeline: pé\n" + test + "stages: [{name: a, hosts: []}]\n",
			`1:11: pipeline name "pé": a-z, 0-9 and "-" only, at most 63`,
		},
		{"pipeline: " + strings.Repeat("p", 63) + "\n" + test + "stages: [{name: a, hosts: []}]\n", ""},
		{"pipeline: " + strings.Repeat("p", 64) + "\n" + test + "stages: [{name: a, hosts: []}]\n",
			`1:11: pipeline name "` + strings.Repeat("p", 64) + `": a-z, 0-9 and "-" only, at most 63`},
		{sound + "true: x\n", "6:1: the key true is a boolean; put it in quotes"},
		{sound + "on: x\n", `6:1: unknown key "on"`},
		{sound + "x-note: {any: [thing]}\n", ""},
		{sound + "? [a]\n: b\n", "6:3: a key must be a string"},
	}, func(text string) string { return text })
}

// TestAliasesAreReportedWhereTheyAreUsed: the fault is at the anchor, which several stages may use.
func TestAliasesAreReportedWhereTheyAreUsed(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"x-h: &h [\"local://a\"]\n" + testPipeline(test, "name: a\nhosts: *h", "name: b\nhosts: *h"), ""},
		{"x-r: &r {deadline: soon}\n" + testPipeline(test, beta+"\nretry: *r"),
			"1:20: stages[0].retry.deadline: want a duration such as 30m (used at 7:10)"},
		{"x-r: &r {deadlin: 1h}\n" + testPipeline(test, beta+"\nretry: *r"),
			`1:10: unknown key "deadlin" in stages[0].retry (used at 7:10) (did you mean "deadline"?)`},
		{"x-b: &b {name: b, hosts: [\"local://x\"]}\n" + testPipeline(test, "<<: *b", "<<: *b\nname: c"), ""},
		{"x-b: &b {hosts: [\"local://x\"]}\n" + testPipeline(test, "<<: *b"), "5:3: stages[0] needs a name"},
		{"x-b: &b {name: b, hosts: []}\n" + testPipeline(test, "<<: *b", "<<: *b"),
			`1:16: stage "b" is already defined on line 1 (used at 6:7)`},
		{testPipeline(test, "name: a\nhosts: *none"), "5:10: the alias *none names no anchor above it"},
		{"x: &x {vars: {a: b}}\n" + testPipeline(test, beta), `1:1: unknown key "x"`},
	}, func(text string) string { return text })
}

// TestScalarsAsYAMLWritesThem: a number keeps the text of the file and is never octal.
func TestScalarsAsYAMLWritesThem(t *testing.T) {
	t.Parallel()
	d, problems := read(
		testPipeline(`vars: {a: 010, b: 0x1F, c: 1_000, d: 1.50, e: TRUE, f: yes, g: 1e3, h: 2001-12-14, i: "~",
  k: 'it''s', l: "tab\tend", m: "\u00e9", n: 1:30}
`+test, beta+"\nretry: {backoff: {retries: 010}}"),
	)
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a": "010",
		"b": "0x1F",
		"c": "1_000",
		"d": "1.50",
		"e": "TRUE",
		"f": "yes",
		"g": "1e3",
		"h": "2001-12-14",
		"i": "~",
		"k": "it's",
		"l": "tab\tend",
		"m": "é",
		"n": "1:30",
	}
	if diff := cmp.Diff(want, d.Vars); diff != "" {
		t.Error(diff)
	}
	if got := d.Stages[0].Chain[0].Policy.Retries; got != 10 {
		t.Errorf("010 is %d", got)
	}
}

func TestDurations(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"0s": 0, "30m": 30 * time.Minute, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "100ms": 100 * time.Millisecond,
		"1d": 24 * time.Hour, "0d": 0, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "0d1h": time.Hour, "007d": 168 * time.Hour,
		"65535d": 65535 * 24 * time.Hour, "65535d1h": 65535*24*time.Hour + time.Hour, "2µs": 2 * time.Microsecond,
		"-1h": -time.Hour, "+1h": time.Hour,
	} {
		if got, err := definition.ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "1w", "1 h", " 1h", "1h ", "1D", "-1d", "+1d", "1.5d", "1d1", "1d-1h",
		"1h1d", "1d1d", "65536d", "1_0d", "٣d",
		"1d2562047h", "2562048h", "1e3s", "1h30", "∞", "1d 12h"} {
		if got, err := definition.ParseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}

func TestVariablesAreReplaced(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"a": "1", "b": "${a}", "": "none", "é": "e"}
	for text, want := range map[string]string{
		"": "", "a": "a", "${a}": "1", "x${a}y${a}z": "x1y1z", "$a": "$a", "$$": "$$", "{a}": "{a}", "$ {a}": "$ {a}", "a}": "a}", "${é}": "e",
		"${b}":       "${a}", // the value of a variable is not expanded again
		"$${a}":      "${a}",
		"$$${a}":     "$${a}",
		"$${a":       "${a",
		"${}":        "none",
		"${a}$${a}":  "1${a}",
		"é${a}é":     "é1é",
		"${a}\n${a}": "1\n1",
	} {
		if got, err := definition.Expand(text, vars); err != nil || got != want {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"${c}": "${c} is not set", "${a": `"${" is not closed`, "${": `"${" is not closed`, "${a}${": `"${" is not closed`,
		"${ a }": "${ a } is not set", "${${a}}": "${${a} is not set", "${A}": "${A} is not set", "${a\n}": "${a\n} is not set",
	} {
		if got, err := definition.Expand(text, vars); err == nil || err.Error() != want {
			t.Errorf("%q: got %q, %v, want %s", text, got, err, want)
		}
	}
}

func TestVariablesOfJSONAreReplaced(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"a": `1"\`, "long": strings.Repeat("x", 100<<10)}
	for raw, want := range map[string]string{
		`"${a}"`:                             `"1\"\\"`,
		`{"${a}": ["${a}", {"b": "$${a}"}]}`: `{"${a}":["1\"\\",{"b":"${a}"}]}`,
		`[12345678901234567890, 1.50, 1e400, true, null]`: `[12345678901234567890,1.50,1e400,true,null]`,
		`{}`: `{}`,
	} {
		if got, err := definition.ExpandJSON(json.RawMessage(raw), vars); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v, want %s", raw, got, err, want)
		}
	}
	for raw, want := range map[string]string{
		`{"a": ["${b}"]}`:                      "${b} is not set",
		`"${a"`:                                `"${" is not closed`,
		`{"a": `:                               "unexpected EOF",
		`["${long}", {"b": "${long}${long}"}]`: "its texts have more than 262144 bytes with their variables replaced",
	} {
		if got, err := definition.ExpandJSON(json.RawMessage(raw), vars); err == nil || err.Error() != want {
			t.Errorf("%s: got %.100s, %v, want %s", raw, got, err, want)
		}
	}
}

// TestHostsThatAreNotThere: and variables that a log of another version lacks, which is a fault and no text with a hole.
func TestHostsThatAreNotThere(t *testing.T) {
	t.Parallel()
	d, problems := read(greeter)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	rev := definition.Revision{Label: "r1", Release: "r1-abc"}
	for _, path := range []string{"", "greeter", "greeter/beta", "greeter/beta/all", "greeter/beta/all/elm",
		"other/beta/all/oak", "greeter/build/all/oak",
		"greeter/beta/all/oak/more", "greeter/beta//oak"} {
		if _, err := definition.Resolve(&d, path, rev); !fault.Is(err, fault.NotFound) {
			t.Errorf("%q: %v", path, err)
		}
	}
	target, err := definition.Resolve(&d, "greeter/beta/all/oak", rev)
	if err != nil || target.Service.Exec[2] != "127.0.0.1:7101" ||
		target.Test[0].HTTP != "http://127.0.0.1:7101/ready" {
		t.Errorf("%+v, %v", target, err)
	}
	delete(d.Stages[1].Groups[0].Hosts[0].Vars, "port")
	_, err = definition.Resolve(&d, "greeter/beta/all/oak", rev)
	want := `expand "127.0.0.1:${port}": ${port} is not set for host beta/all/oak`
	if !fault.Is(err, fault.Invalid) || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestResolvingChangesNothing: a definition is shared by all passes.
func TestResolvingChangesNothing(t *testing.T) {
	t.Parallel()
	text := testPipeline(
		"vars: {v: 1}\nservice: {exec: [a, \"${v}\"], env: {A: \"${v}\"}, ready: {checks: [{run: [\"${v}\"]}]}}\n"+
			"test: [{http: \"http://a:${v}\", headers: {h: \"${v}\"}}]\nsteps: [deploy, {name: own, run: [\"${v}\"]}]\n",
		beta,
	)
	d, problems := read(text)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	again, _ := read(text)
	target, err := definition.Resolve(&d, "p/beta/all/oak", definition.Revision{Label: "r", Release: "r"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(again, d); diff != "" {
		t.Errorf("the definition changed (-before +after)\n%s", diff)
	}
	got := []string{
		target.Service.Exec[1],
		target.Service.Env["A"],
		target.Service.Ready.Checks[0].Run[0],
		target.Test[0].HTTP,
		target.Test[0].Headers["h"],
		target.Chain[1].Run[0],
	}
	if diff := cmp.Diff([]string{"1", "1", "1", "http://a:1", "1", "1"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLocateFindsWhatEncloses a field that is not there, whatever the path.
func TestLocateFindsWhatEncloses(t *testing.T) {
	t.Parallel()
	text := testPipeline(
		"steps: [deploy, {name: own, run: [a]}]\n"+test,
		"name: a\ngroups:\n- name: g\n  hosts:\n  - local://x\n  - {url: local://y}",
		"name: b\nafter: [a]\nsteps: [deploy]\nhosts: [local://z]",
	)
	node, problems := yamltree.Parse("waybill.yaml", []byte(text), yamltree.PipelineFile)
	if problems != nil {
		t.Fatal(problems)
	}
	for path, want := range map[string]string{
		"pipeline": "1:11", "steps[1].run": "2:34", "stages[0].name": "5:9", "stages[0].chain[1]": "2:17", "stages[0].chain[1].run[0]": "2:35",
		"stages[1].chain[0]": "13:11", "stages[1].chain[5]": "13:10", "stages[1].after[0]": "12:11", "stages[1].after[1]": "12:10",
		"stages[0].groups[0].hosts[0]": "9:7", "stages[0].groups[0].hosts[0].url": "9:7", "stages[0].groups[0].hosts[1].url": "10:13",
		"stages[0].groups[1]": "7:3", "stages[0].groups[0].waves.sizes[0]": "7:5", "stages[1].groups[0].hosts[0]": "14:11",
		"stages[1].groups[3].maxParallel": "11:3", "stages[-1]": "5:1", "stages[x]": "5:1", "nothing.at.all": "1:1", "test[0].tcp": "3:14",
	} {
		at := definition.Locate(node, path)
		if got := strings.TrimPrefix(at.String(), "waybill.yaml:"); got != want {
			t.Errorf("%s is at %s, want %s", path, got, want)
		}
	}
	if at := definition.Locate(nil, "stages[0]"); at != (fault.Position{}) {
		t.Errorf("of no file: %v", at)
	}
	if d, problems := definition.Read(nil, nil); len(d.Stages) > 0 || problems != nil {
		t.Errorf("of no file: %+v, %v", d, problems)
	}
}

// TestLimitsAreCountsOrPercentages: "25%" and 25 are other limits.
func TestLimitsAreCountsOrPercentages(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]pipeline.Limit{
		"1": {N: 1}, "100000": {N: 100_000}, "1%": {N: 1, Percent: true}, "100%": {N: 100, Percent: true}, `"7"`: {N: 7}, "007": {N: 7},
	} {
		d, problems := read(testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], maxParallel: "+text+"}]"))
		if problems.Err() != nil || d.Stages[0].Groups[0].MaxParallel != want {
			t.Errorf("%s: %+v, %v", text, d.Stages[0].Groups[0].MaxParallel, problems.Err())
		}
	}
}

// TestTimesOfABake: a wave bakes in rounds of a minute, a stage as it says, and both may wait for days for a host that is away.
func TestTimesOfABake(t *testing.T) {
	t.Parallel()
	d, problems := read(
		testPipeline(
			test,
			"name: a\nbake: {for: 2h, every: 30s}\ngroups: [{name: g, hosts: [], waves: {sizes: [1, 50%], bake: 90s}}]",
		),
	)
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	s := d.Stages[0]
	got := []action.Duration{
		s.Bake.For,
		s.Bake.Every,
		s.Bake.Policy.Deadline,
		s.Groups[0].Waves.Bake.For,
		s.Groups[0].Waves.Bake.Every,
	}
	want := []action.Duration{
		action.Duration(2 * time.Hour),
		action.Duration(30 * time.Second),
		action.Duration(170 * time.Hour),
		action.Duration(90 * time.Second),
		action.Duration(time.Minute),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]pipeline.Limit{{N: 1}, {N: 50, Percent: true}}, s.Groups[0].Waves.Sizes); diff != "" {
		t.Error(diff)
	}
}
