package definition_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fragment is a part of a file, and the faults of the file that has it: one a line, each with its line and column.
type fragment struct{ text, want string }

// check compares the faults of each fragment's file with those that it shall have; "" is none.
func check(t *testing.T, fragments []fragment, file func(text string) string) {
	t.Helper()
	for _, f := range fragments {
		_, problems := read(file(f.text))
		var got []string
		for _, p := range problems {
			if !p.Warning {
				got = append(got, strings.TrimPrefix(p.String(), "waybill.yaml:"))
			}
		}
		if diff := cmp.Diff(f.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%.200s\n(-want +got)\n%s", f.text, diff)
		}
	}
}

// ofFile puts lines before the stages of a file, from line 2 on.
func ofFile(text string) string { return testPipeline(text+"\n"+test, beta) }

// ofStage puts lines into a stage with a host, from 6:3 on.
func ofStage(text string) string { return testPipeline(test, beta+"\n"+text) }

func TestFaultsOfTheFile(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"order: Strict", `2:8: "Strict" is none of runnable, strict (did you mean "strict"?)`},
		{"order: true", `2:8: want a string, found a boolean; write "true" in quotes`},
		{"pin: yes", "2:6: want a boolean, found a string"},
		{"pin: TRUE", ""},
		{"keep: 5", "2:7: want a mapping, found a number"},
		{"keep: {releases: 0}", "2:18: keep.releases: want a whole number from 1 to 1000"},
		{"keep: {releases: 1001}", "2:18: keep.releases: want a whole number from 1 to 1000"},
		{"keep: {releases: 1.5}", "2:18: keep.releases: want a whole number from 1 to 1000"},
		{"keep: {releases: five}", "2:18: want a number, found a string"},
		{"keep: {entries: 1h}", ""},
		{"keep: {entries: 65535d}", ""},
		{"keep: {entries: 1w}", "2:17: keep.entries: want at least 1h and at most 65535d, such as 400d"},
		{"keep: {entries: 400}", "2:17: want a duration, found a number; give it a unit, such as 400s"},
		{"keep: {entry: 400d}", `2:8: unknown key "entry" in keep`},
		{"vars: {}", ""},
		{"vars: [a]", "2:7: want a mapping of scalars, found a list"},
		{"vars: {a: [b]}", "2:11: want a scalar, found a list"},
		{"vars: {a-b: c}", `2:8: variable "a-b": letters, digits and "_" only`},
		{"vars: {1a: c}", `2:8: variable "1a": letters, digits and "_" only`},
		{"vars: {é: c}", `2:8: variable "é": letters, digits and "_" only`},
		{"vars: {revision: c, release: d}", "2:8: ${revision} is set by Waybill: choose another name\n" +
			"2:21: ${release} is set by Waybill: choose another name"},
		{"batches: [{name: all, stages: [beta]}]", ""},
		{
			"batches: [{name: a, stages: [beta]}, {name: a, stages: [beta]}]",
			`2:45: batch "a" is already defined on line 2`,
		},
		{"batches: [{stages: [beta]}]", "2:11: batches[0] needs a name"},
		{"batches: [beta]", "2:11: want a mapping, found a string"},
		{"batches: [{name: a, stages: [gamma]}]", `2:30: stage "gamma" not found`},
		{"batches: [{name: a b, stages: [beta]}]", `2:18: batch name "a b": letters, digits, "-" and "." only`},
	}, ofFile)
}

func TestFaultsOfRetries(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"{}", ""},
		{"3", "2:8: want a mapping, found a number"},
		{"{retries: 3}", `2:9: unknown key "retries" in retry`},
		{"{backoff: 3s}", "2:18: want a mapping, found a string"},
		{"{backoff: {retries: -1}}", "2:28: retry.backoff.retries: want a whole number from 0 to 1000"},
		{"{backoff: {retries: 1001}}", "2:28: retry.backoff.retries: want a whole number from 0 to 1000"},
		{"{backoff: {retries: 0}}", ""},
		{
			"{backoff: {retries: 9223372036854775808}}",
			"2:28: retry.backoff.retries: want a whole number from 0 to 1000",
		},
		{"{backoff: {retries: 0x10}}", "2:28: retry.backoff.retries: want a whole number from 0 to 1000"},
		{"{backoff: {retries: 0o17}}", "2:28: retry.backoff.retries: want a whole number from 0 to 1000"},
		{"{backoff: {retries: 1_0}}", "2:28: retry.backoff.retries: want a whole number from 0 to 1000"},
		{`{backoff: {retries: "3"}}`, "2:28: want a number, found a string"},
		{"{backoff: {retries: 1e2}}", "2:28: retry.backoff.retries: want a whole number from 0 to 1000"},
		{"{backoff: {initial: -1s}}", "2:28: retry.backoff.initial: want a duration such as 30m"},
		{"{backoff: {initial: 0s}}", ""},
		{"{backoff: {initial: 1 s}}", "2:28: retry.backoff.initial: want a duration such as 30m"},
		{"{backoff: {max: 2 minutes}}", "2:24: retry.backoff.max: want a duration such as 30m"},
		{"{backoff: {factor: 0.9}}", "2:27: retry.backoff.factor: want a number from 1 to 100"},
		{"{backoff: {factor: 100.5}}", "2:27: retry.backoff.factor: want a number from 1 to 100"},
		{"{backoff: {factor: .nan}}", "2:27: retry.backoff.factor: want a number from 1 to 100"},
		{"{backoff: {factor: .inf}}", "2:27: retry.backoff.factor: want a number from 1 to 100"},
		{"{backoff: {factor: 1.5}}", ""},
		{"{backoff: {factor: two}}", "2:27: want a number, found a string"},
		{"{attemptTimeout: 1.5h}", ""},
		{"{attemptTimeout: 1.5d}", "2:25: retry.attemptTimeout: want a duration such as 30m"},
		{"{attemptTimeout: -5m}", "2:25: retry.attemptTimeout: want a duration such as 30m"},
		{"{attemptTimeout: 5M}", "2:25: retry.attemptTimeout: want a duration such as 30m"},
		{"{attemptTimeout: ~}", "2:25: want a duration, found nothing"},
		{"{deadline: 00s}", "2:19: retry.deadline must be above 0s"},
		{"{deadline: 9999999h}", "2:19: retry.deadline: want a duration such as 30m"},
		{"{timeout: 5m}", `2:9: unknown key "timeout" in retry`},
	}, func(text string) string { return ofFile("retry: " + text) })
}

func TestFaultsOfServices(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"{name: ''}", `2:17: service name "": letters, digits, "-" and "." only`},
		{"{name: ..}", `2:17: service name "..": letters, digits, "-" and "." only`},
		{"{name: a/b}", `2:17: service name "a/b": letters, digits, "-" and "." only`},
		{"{name: wave-1}", `2:17: service name "wave-1" is reserved`},
		{"{manager: systemctl}", `2:20: "systemctl" is none of systemd, process, none`},
		{"{exec: []}", "2:17: exec must not be empty"},
		{`{exec: [""]}`, "2:18: exec must begin with a program"},
		{"{exec: [a, [b]]}", "2:21: want a scalar, found a list"},
		{"{exec: {a: b}}", "2:17: want a list of scalars, found a mapping"},
		{"{exec: [./a, --port, 80, --on, true]}", ""},
		{"{restart: always}", `2:20: "always" is none of restart, reload, none`},
		{"{hooks: {before: ./a}}", "2:27: before is an argument list, not a shell line"},
		{"{hooks: {after: []}}", "2:26: after must not be empty"},
		{"{hooks: {during: [a]}}", `2:19: unknown key "during" in service.hooks`},
		{"{shared: data}", "2:19: want a list of strings, found a string"},
		{"{shared: [data, data]}", `2:26: shared "data" is named twice`},
		{"{shared: [/data]}", `2:20: shared "/data": want a path inside the release, such as data`},
		{"{shared: [./data]}", `2:20: shared "./data": want a path inside the release, such as data`},
		{"{shared: [a/../../b]}", `2:20: shared "a/../../b": want a path inside the release, such as data`},
		{"{shared: ['']}", `2:20: shared "": want a path inside the release, such as data`},
		{"{shared: [.]}", `2:20: shared ".": want a path inside the release, such as data`},
		{"{shared: [..data, a/b]}", ""},
		{`{shared: ["a\nb"]}`, `2:20: shared "a\nb": want a path inside the release, such as data`},
		{"{secrets: [A]}", "2:20: want a mapping of names to {file: …}, found a list"},
		{"{secrets: {A: {}}}", "2:24: secrets.A: want {file: …}"},
		{"{secrets: {A: {file: ''}}}", "2:24: secrets.A: want {file: …}"},
		{"{secrets: {A: {file: 5}}}", "2:24: secrets.A: want {file: …}"},
		{"{secrets: {A: {file: a, mode: b}}}", "2:24: secrets.A: want {file: …}"},
		{"{secrets: {A B: {file: a}}}", `2:26: secret name "A B": letters, digits and "_" only`},
		{"{secrets: {A: {file: \"${b\"}}}", `2:31: "${" is not closed in "${b"`},
		{"{ready: 5s}", "2:18: want a mapping, found a string"},
		{"{ready: {within: 0s}}", "2:27: service.ready.within must be above 0s"},
		{"{ready: {within: 5s}}", ""},
		{"{ready: {within: 4s}}", "2:18: ready.for (5s) must not be longer than ready.within (4s)"},
		{"{ready: {checks: [{}]}}", "2:28: service.ready.checks[0] needs exactly one of http, tcp, run"},
		{"{confirm: 60s}", "2:20: confirm (1m0s) must be longer than ready.within (1m0s)"},
		{"{confirm: 0s}", ""},
		{"{confirm: 61s}", ""},
		{"{env: {A: ~}}", "2:20: want a scalar, found nothing"},
		{"{env: {A: 010, B: true, C: 2001-12-14, D: 1_000}}", ""},
		{"{env: {a.b: c}}", `2:17: env name "a.b": letters, digits and "_" only`},
		{"{env: [A=b]}", "2:16: want a mapping of scalars, found a list"},
		{`{env: {A: "$${b} $b {c}"}}`, ""},
		{`{env: {A: "${}"}}`, "2:20: ${} is not set for host beta/all/oak"},
		{`{env: {A: "${b c}"}}`, "2:20: ${b c} is not set for host beta/all/oak"},
		{
			"{unit: a.service, env: {B: c}}",
			"2:10: the service has env or secrets, and unit a.service sets its environment itself",
		},
		{"{unit: .service}", `2:17: unit ".service": want the name of a unit such as greeter.service`},
		{`{unit: "a@b.service"}`, ""},
	}, func(text string) string { return ofFile("service: " + text) })
}

func TestFaultsOfChecks(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"{}", "2:8: test[0] needs exactly one of http, tcp, run"},
		{"{tcp: a}", "2:14: tcp: want an address such as 127.0.0.1:${port}"},
		{"{tcp: 80}", "2:14: tcp: want an address such as 127.0.0.1:${port}\n" +
			`2:14: want a string, found a number; write "80" in quotes`},
		{`{tcp: "a:1", status: [200]}`, "2:29: status belongs to http"},
		{"{run: [a], body: b}", "2:25: body belongs to http"},
		{"{run: []}", "2:14: run must not be empty"},
		{"{http: a/b}", "2:15: http: want a URL such as http://127.0.0.1:${port}/ready"},
		{`{http: "ftp://a"}`, "2:15: http: want a URL such as http://127.0.0.1:${port}/ready"},
		{`{http: "http://"}`, "2:15: http: want a URL such as http://127.0.0.1:${port}/ready"},
		{`{http: "https:///a"}`, "2:15: http: want a URL such as http://127.0.0.1:${port}/ready"},
		{`{http: "https://a?b"}`, ""},
		{`{http: "http://a", status: 200}`, "2:35: want a list of scalars, found a number"},
		{`{http: "http://a", status: [99]}`, "2:36: test[0].status[0]: want a status such as 200"},
		{`{http: "http://a", status: [200, 600]}`, "2:41: test[0].status[1]: want a status such as 200"},
		{`{http: "http://a", status: [2xx]}`, "2:36: test[0].status[0]: want a status such as 200"},
		{`{http: "http://a", status: [100, 599]}`, ""},
		{`{http: "http://a", timeout: 0s}`, "2:36: test[0].timeout must be above 0s"},
		{`{http: "http://a", timeout: 5}`, "2:36: want a duration, found a number; give it a unit, such as 5s"},
		{`{http: "http://a", headers: {"": b}}`, "2:37: a key must not be empty"},
		{`{http: "http://a", headers: {a: [b]}}`, "2:40: want a scalar, found a list"},
		{`{http: "http://a", header: {a: b}}`, `2:27: unknown key "header" in test[0] (did you mean "headers"?)`},
		{`{http: "http://a", headers: {` + names(1, 32) + "}}", ""},
		{
			`{http: "http://a", headers: {` + names(1, 33) + "}}",
			"2:36: test[0].headers has 33 header fields, at most 32",
		},
		{`{http: "http://a", headers: {` + strings.Repeat("h", 65) + ": b}}",
			`2:37: "` + strings.Repeat("h", 65) + `" is not the name of a header field`},
		{"http", "2:8: want a mapping, found a string"},
	}, func(text string) string { return testPipeline("test: ["+text+"]\n", beta) })
}

func TestFaultsOfSteps(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"[]", "2:8: steps must not be empty"},
		{"deploy", "2:8: want a list of steps, found a string"},
		{"[5]", "2:9: want the name of a step or a mapping, found a number"},
		{"[[deploy]]", "2:9: want the name of a step or a mapping, found a list"},
		{
			"[Deploy]",
			`2:9: built-in step "Deploy" not found: want replicate, deploy, test, or {name: …, run: […]} (did you mean "deploy"?)`,
		},
		{"[deploy, {}]", "2:17: steps[1] needs a name"},
		{"[deploy, {run: [a]}]", "2:17: steps[1] needs a name"},
		{"[deploy, {name: '', run: [a]}]", `2:24: "name" must not be empty`},
		{"[deploy, {name: a b, run: [a]}]", `2:24: step name "a b": letters, digits, "-" and "." only`},
		{"[deploy, {name: é, run: [a]}]", `2:24: step name "é": letters, digits, "-" and "." only`},
		{"[deploy, {name: " + strings.Repeat("n", 64) + ", run: [a]}]",
			`2:24: step name "` + strings.Repeat("n", 64) + `": letters, digits, "-" and "." only`},
		{"[deploy, {name: " + strings.Repeat("n", 63) + ", run: [a]}]", ""},
		{"[deploy, {name: a, run: [a]}, {name: a, run: [b]}]", `2:45: step "a" is already defined on line 2`},
		{
			"[deploy, {name: group-a, run: [a]}]",
			`2:24: step name "group-a" is reserved: host-group-a is an event of Waybill`,
		},
		{
			"[replicate, {name: deployed, run: [a]}]",
			`2:27: step name "deployed" is reserved: host-deployed is an event of Waybill`,
		},
		{"[deploy, {name: a, run: ./a}]", "2:32: run is an argument list, not a shell line"},
		{"[deploy, {name: a, run: []}]", "2:32: run must not be empty"},
		{"[{name: deploy, run: [a]}]", `2:29: step "deploy" is built in and runs nothing else`},
		{"[deploy, {name: a, runs: [a]}]", `2:17: step "a" needs exactly one of run, request, handler` + "\n" +
			`2:27: unknown key "runs" in steps[1] (did you mean "run"?)`},
		{"[deploy, {name: a, run: [a], retry: {deadline: 0s}}]", "2:55: steps[1].retry.deadline must be above 0s"},
		{"[{name: deploy, retry: {attemptTimeout: 9m}}]", ""},
		{"[deploy, {name: a, run: [\"${x}\"]}]", "2:33: ${x} is not set for host beta/all/oak"},
	}, func(text string) string { return ofFile("steps: " + text) })
}

func TestFaultsOfStages(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"queue: lifo", `6:10: "lifo" is none of fifo, latest, false (did you mean "fifo"?)`},
		{"queue: true", `6:10: "true" is none of fifo, latest, false`},
		{"queue: false", ""},
		{"onFailure: Rollback", `6:14: "Rollback" is none of release, hold, rollback (did you mean "rollback"?)`},
		{"after: beta", "6:10: want a list of strings, found a string"},
		{"after: [beta]", `6:11: stage "beta" comes after itself`},
		{"was: old", "6:8: want a list of strings, found a string"},
		{"was: [" + strings.ReplaceAll(names(1, 21), ": x", "") + "]", "6:8: was has 21 names, at most 20"},
		{"was: [..]", `6:8: name "..": letters, digits, "-" and "." only`},
		{"artifacts: {any: a}", `6:14: stage "beta" has artifacts, but no build`},
		{"groups: []", `4:3: stage "beta" has both hosts and groups`},
		{"test: []", ""},
		{"test: {tcp: a}", "6:9: want a list of mappings, found a mapping"},
		{
			"waves: {sizes: [1]}",
			`6:3: "waves" belongs to a group: write groups: [{name: all, hosts: […], waves: …}] in place of hosts`,
		},
		{
			"joining: next",
			`6:3: "joining" belongs to a group: write groups: [{name: all, hosts: […], joining: …}] in place of hosts`,
		},
		{"windows: []", ""},
		{
			"windows: [{kind: Deny, schedule: '@dayly', duration: 1h}]",
			`6:36: "@dayly" is not known: want @hourly, @daily, @weekly, @monthly, @yearly or five fields`,
		},
		{
			"windows: [{kind: Deny, schedule: '61 * * * *', duration: 1h}]",
			`6:36: minute "61": want 0 to 59, found "61"`,
		},
		{"windows: [{kind: Deny, schedule: '@daily'}]", "6:13: stages[0].windows[0] needs a duration"},
		{
			"windows: [{kind: Deny, schedule: '@daily', duration: 367d}]",
			"6:56: stages[0].windows[0].duration: want 1m to 366d",
		},
		{"windows: [{kind: Deny, schedule: '@daily', duration: 366d}]", ""},
		{"windows: [{kind: Deny, schedule: '@daily', duration: 1h, reason: " + strings.Repeat("é", 100) + "}]", ""},
		{"windows: [{kind: Deny, schedule: '@daily', duration: 1h, reason: " + strings.Repeat("é", 101) + "}]",
			"6:68: stages[0].windows[0].reason: want at most 200 bytes without control characters"},
		{"approval: true", "6:13: want a mapping, found a boolean"},
		{"approval: {count: 101}", "6:21: stages[0].approval.count: want a whole number from 1 to 100"},
		{"approval: {by: ana}", "6:18: want a list of strings, found a string"},
		{
			"approval: {by: ['', ' ']}",
			"6:19: stages[0].approval.by[0] must not be empty\n6:23: stages[0].approval.by[1] must not be empty",
		},
		{
			"approval: {by: ['group:']}",
			`6:19: stages[0].approval.by[0]: group name "": letters, digits, "-", "_" and "." only, at most 63`,
		},
		{"approval: {by: ['group:ops', 'group:ops']}", `6:32: "group:ops" is named twice`},
		{
			"approval: {by: ['" + strings.Repeat("a", 101) + "']}",
			"6:19: stages[0].approval.by[0]: want at most 100 bytes without control characters",
		},
		{
			"approval: {by: [\"a\\u202eb\"]}",
			`6:19: stages[0].approval.by[0]: want visible characters only, not "a\u202eb"`,
		},
		{"approval: {self: 1}", "6:20: want a boolean, found a number"},
		{"bake: 5m", "6:9: want a mapping, found a string"},
		{"bake: {for: 0s}", "6:15: stages[0].bake.for must be above 0s"},
		{"bake: {for: 1h, every: 61m}", "6:26: stages[0].bake.every: want a duration from 1s to 1h"},
		{"bake: {for: 10000s, every: 1s}", ""},
	}, ofStage)
}

func TestFaultsOfBuildsAndArtifacts(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"build: ''\nartifacts: {any: a}", `5:10: build file "" leaves the folder of waybill.yaml`},
		{"build: .\nartifacts: {any: a}", `5:10: build file "." leaves the folder of waybill.yaml`},
		{"build: a/../..\nartifacts: {any: a}", `5:10: build file "a/../.." leaves the folder of waybill.yaml`},
		{
			"build: {file: ../a, stage: b}\nartifacts: {any: a}",
			`5:10: build file "../a" leaves the folder of waybill.yaml`,
		},
		{
			"build: {stag: b}\nartifacts: {any: a}",
			`5:11: unknown key "stag" in stages[0].build (did you mean "stage"?)`,
		},
		{"build: [a]\nartifacts: {any: a}", "5:10: want a string or a mapping, found a list"},
		{"build: external", `5:10: stage "x" is built elsewhere: name its artifacts`},
		{"build: external\nartifacts: {any: a}", ""},
		{"build: {}\nartifacts: {any: a}", ""},
		{"build: a\nartifacts: {a b: c}", `6:15: artifact label "a b": letters, digits, "-" and "." only`},
		{"build: a\nartifacts: {any: ''}", `6:20: artifact "" leaves the folder of waybill.yaml`},
		{"build: a\nartifacts: {any: /a}", `6:20: artifact "/a" leaves the folder of waybill.yaml`},
		{"build: a\nartifacts: {any: 5}", `6:20: want a string, found a number; write "5" in quotes`},
		{"build: a\nartifacts: [a]", "6:14: want a mapping of strings, found a list"},
		{"build: a\nartifacts: {any: a}\nservice: {}", `7:12: stage "x" builds: service belongs to stages with hosts`},
		{
			"build: a\nartifacts: {any: a}\nvars: {}\nsteps: []",
			`7:9: stage "x" builds: vars belongs to stages with hosts` + "\n" +
				`8:10: stage "x" builds: steps belongs to stages with hosts`,
		},
		{"gates: []\nqueue: latest", `6:10: stage "x" is a gate: queue belongs to stages with hosts`},
	}, func(text string) string { return testPipeline(test, "name: x\n"+text) })
}

func TestFaultsOfGroups(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"hosts: []", "5:12: stages[0].groups[0] needs a name"},
		{"name: g, hosts: []}, {name: g, hosts: []", `5:41: group "g" is already defined on line 5`},
		{"name: g, was: [g], hosts: []", `5:28: group "g" was "g", which is the name of a group`},
		{
			"name: g, maxParallel: 0",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{
			"name: g, maxParallel: 0%",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{
			"name: g, maxParallel: 100001",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{
			"name: g, maxParallel: +1",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{
			"name: g, maxParallel: 1.5",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{
			"name: g, maxParallel: 25 %",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{
			"name: g, maxParallel: all",
			"5:35: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%",
		},
		{"name: g, maxParallel: [1]", "5:35: want a scalar, found a list"},
		{"name: g, maxFailed: 0", ""},
		{
			"name: g, maxFailed: 101%",
			"5:33: stages[0].groups[0].maxFailed: want a count such as 1, or a percentage such as 25%",
		},
		{"name: g, joining: now", `5:31: "now" is none of next, catch-up`},
		{"name: g, waves: 3", "5:29: want a mapping, found a number"},
		{"name: g, waves: {sizes: 3}", "5:37: want a list of scalars, found a number"},
		{"name: g, waves: {sizes: [1], bake: 5}", "5:48: want a duration, found a number; give it a unit, such as 5s"},
		{"name: g, hosts: local://a", "5:29: want a list of hosts, found a string"},
		{"name: g, hosts: {a: local://a}", "5:29: want a list of hosts, found a mapping"},
		{"name: g, parallel: 3", `5:22: unknown key "parallel" in stages[0].groups[0]`},
		{"name: g, vars: {stage: x}", "5:29: ${stage} is set by Waybill: choose another name"},
		{"name: g, service: {manager: process}", "5:31: manager process needs exec"},
	}, func(text string) string { return testPipeline(test, "name: a\ngroups: [{"+text+"}]") })
}

func TestFaultsOfHosts(t *testing.T) {
	t.Parallel()
	const url = "want ssh://[user@]host[:port], local://name or local:///dir"
	check(t, []fragment{
		{"5", "5:11: want a URL or a mapping, found a number"},
		{"[a]", "5:11: want a URL or a mapping, found a list"},
		{"{}", "5:11: stages[0].hosts[0] needs a url"},
		{"{name: a}", "5:11: stages[0].hosts[0] needs a url"},
		{"{url: 5}", `5:17: want a string, found a number; write "5" in quotes`},
		{"''", "5:11: " + url},
		{"local:a", "5:11: " + url},
		{"local:/a", "5:11: " + url},
		{"local://", "5:11: " + url},
		{"local:///", "5:11: " + url},
		{"local:///..", "5:11: " + url},
		{"local://a/b", "5:11: " + url},
		{"local://a/", ""},
		{"\"local://a:80\"", "5:11: " + url},
		{"local://a?b", "5:11: " + url},
		{"'local://a#b'", "5:11: " + url},
		{"local:///srv/a b", `5:11: host name "a b": letters, digits, "-" and "." only`},
		{"{name: ab, url: \"local:///srv/a b\"}", ""},
		{"\"ssh://u@a%zz\"", "5:11: " + url},
		{"\"ssh://u@a:0\"", "5:11: " + url},
		{"\"ssh://u@a:ssh\"", "5:11: " + url},
		{"\"ssh://u@a_b\"", "5:11: " + url},
		{"\"ssh://u@[::1\"", "5:11: " + url},
		{"\"ssh://u@é.example\"", "5:11: " + url},
		{"\"ssh://@a\"", `5:11: user "": letters, digits, ".", "_" and "-" only`},
		{"\"ssh://u%20v@a\"", `5:11: user "u v": letters, digits, ".", "_" and "-" only`},
		{
			"\"ssh://" + strings.Repeat("u", 65) + "@a\"",
			`5:11: user "` + strings.Repeat("u", 65) + `": letters, digits, ".", "_" and "-" only`,
		},
		{"\"u@a:22\"", ""},
		{"\"u@a:22\", \"ssh://u@a\"", `5:21: host "a" is already defined on line 5`},
		{"\"10.0.0.5:2222\"", "5:11: 10.0.0.5 needs a user: ssh://user@10.0.0.5, or ssh.user for all hosts"},
		{"\"u@[::1]:22\", \"u@10.0.0.5\", \"u@oak\"", ""},
		{"\"u@::1\"", "5:11: " + url},
		{"\"u@a:b:22\"", "5:11: " + url},
		{"\"u@a\\n\"", "5:11: " + url},
		{"\"https://u@a\"", "5:11: " + url},
		{"{url: local://a, root: ''}", ""},
		{
			"{url: local://a, root: /srv/../etc}",
			`5:34: root "/srv/../etc": want a folder; a relative one counts from the home of the account`,
		},
		{
			"{url: local://a, root: -x}",
			`5:34: root "-x": want a folder; a relative one counts from the home of the account`,
		},
		{"{url: local://a, root: /srv/a..b}", ""},
		{
			"{url: local://a, hostKey: 'SHA256:short'}",
			"5:37: want the fingerprint of the host's key, SHA256: and 43 characters, as ssh-keygen -l prints it",
		},
		{"{url: local://a, hostKey: '" + strings.Repeat("A", 43) + "'}",
			"5:37: want the fingerprint of the host's key, SHA256: and 43 characters, as ssh-keygen -l prints it"},
		{"{url: local://a, arch: [x]}", "5:34: want a string, found a list"},
		{"{url: local://a, port: 22}", `5:28: unknown key "port" in stages[0].hosts[0] (did you mean "root"?)`},
		{"{url: local://a, vars: {x: [y]}}", "5:38: want a scalar, found a list"},
	}, func(text string) string { return testPipeline(test, "name: a\nhosts: ["+text+"]") })
}

func TestFaultsOfSSH(t *testing.T) {
	t.Parallel()
	check(t, []fragment{
		{"{port: 65535, user: a.b_c-d}", ""},
		{"{port: 65536}", "2:13: ssh.port: want a whole number from 1 to 65535"},
		{"{port: '22'}", "2:13: want a number, found a string"},
		{"{user: -a}", `2:13: user "-a": letters, digits, ".", "_" and "-" only`},
		{"{user: é}", `2:13: user "é": letters, digits, ".", "_" and "-" only`},
		{`{identity: "a\tb"}`, `2:17: ssh.identity "a\tb": want a file`},
		{`{knownHosts: "a\nb"}`, `2:19: ssh.knownHosts "a\nb": want a file`},
		{"{jump: 'ssh://bastion'}", "2:13: bastion needs a user: ssh://user@bastion, or ssh.user for all hosts"},
		{"{user: u, jump: 'ssh://bastion'}", ""},
		{"{jump: 'local://bastion'}", "2:13: want ssh://[user@]host[:port]"},
		{"{jump: 'ssh://u@bastion/x'}", "2:13: want ssh://[user@]host[:port]"},
		{
			"{jumpKey: 'SHA256:'}",
			"2:16: want the fingerprint of the host's key, SHA256: and 43 characters, as ssh-keygen -l prints it",
		},
		{"{sudo: 'true'}", "2:13: want a boolean, found a string"},
		{"{users: a}", `2:7: unknown key "users" in ssh (did you mean "user"?)`},
		{"[]", "2:6: want a mapping, found a list"},
	}, func(text string) string { return ofFile("ssh: " + text) })
}

func TestFaultsOfGates(t *testing.T) {
	t.Parallel()
	many := func(n int, one string) string { return strings.TrimSuffix(strings.Repeat(one+", ", n), ", ") }
	check(t, []fragment{
		{"{http: {url: 'https://x'}}", "6:11: stages[0].gates[0] needs a name"},
		{"{name: wave-1, http: {url: 'https://x'}}", `6:18: gate name "wave-1" is reserved`},
		{"{name: x, cel: 'a'}", `6:26: cel is about the targets of an environment, which stage "beta" does not have`},
		{"{name: x, http: {url: 'https://x'}, successes: 2}", `6:47: "successes" is not yet supported`},
		{"{name: x, http: https://x}", "6:27: want a mapping, found a string"},
		{
			"{name: x, http: {url: ''}}",
			`6:33: "url" must not be empty` + "\n6:33: url: want a URL such as https://example.net/ready",
		},
		{"{name: x, http: {url: 'https://'}}", "6:33: url: want a URL such as https://example.net/ready"},
		{"{name: x, http: {url: 'https://x:port/'}}", "6:33: url: want a URL such as https://example.net/ready"},
		{`{name: x, http: {url: "https://x/\n"}}`, "6:33: url: want a URL such as https://example.net/ready"},
		{"{name: x, http: {url: 'https://${'}}", `6:33: "${" is not closed in "https://${"`},
		{
			"{name: x, http: {url: 'https://x', status: [0]}}",
			"6:55: stages[0].gates[0].http.status[0]: want a status such as 200",
		},
		{
			"{name: x, http: {url: 'https://x', allowNetworks: 10.0.0.0/8}}",
			"6:61: want a list of strings, found a string",
		},
		{"{name: x, http: {url: 'https://x', allowNetworks: [10.0.0.0/33]}}",
			"6:62: stages[0].gates[0].http.allowNetworks[0]: want a network such as 10.0.0.0/8"},
		{"{name: x, http: {url: 'https://x', allowNetworks: [" + many(101, "10.0.0.0/8") + "]}}",
			"6:61: stages[0].gates[0].http.allowNetworks has 101 networks, at most 100"},
		{"{name: x, http: {url: 'http://169.254.169.254/'}}",
			"6:33: address 169.254.169.254 is refused: link-local, where machines read their metadata; allowNetworks lets networks through"},
		{
			"{name: x, http: {url: 'http://[::ffff:10.0.0.1]/'}}",
			"6:33: address 10.0.0.1 is refused: private; allowNetworks lets networks through",
		},
		{
			"{name: x, http: {url: 'http://0.0.0.0/'}}",
			"6:33: address 0.0.0.0 is refused: this network; allowNetworks lets networks through",
		},
		{"{name: x, http: {url: 'https://x', method: POST}}", `6:46: unknown key "method" in stages[0].gates[0].http`},
		{"{name: x, handler: {name: worker}}", `6:37: handler "worker" is for Waybill's own actions`},
		{"{name: x, handler: {name: y, parameters: [1]}}", "6:52: want a mapping, found a list"},
		{"{name: x, handler: {name: y, parameters: {a: '${b'}}}", `6:56: "${" is not closed in "${b"`},
		{"{name: x, job: {run: [x], timeout: 5m}}", `6:37: unknown key "timeout" in stages[0].gates[0].job`},
		{"{name: x, job: {run: [x]}, interval: 0s}", "6:48: stages[0].gates[0].interval must be above 0s"},
		{"{name: x, job: {run: [x]}, timeout: never}", "6:47: stages[0].gates[0].timeout: want a duration such as 30m"},
		{
			"{name: x, job: {run: [x]}, failures: 1001}",
			"6:48: stages[0].gates[0].failures: want a whole number from 1 to 1000",
		},
		{"{name: x, job: {run: [x, '" + strings.Repeat("y", 32<<10) + "']}}",
			"6:32: stages[0].gates[0].job.run has 2 texts of 32769 bytes together, at most 100 of 32768"},
		{"x", "6:11: want a mapping, found a string"},
	}, func(text string) string { return ofStage("gates: [" + text + "]") })
	gates := make([]string, 21)
	for i := range gates {
		gates[i] = fmt.Sprintf("{name: g%d, job: {run: [x]}}", i)
	}
	check(t, []fragment{
		{strings.Join(gates[:20], ", "), ""},
		{strings.Join(gates, ", "), "6:10: the stage has 21 gates, at most 20"},
	}, func(text string) string { return ofStage("gates: [" + text + "]") })
}

// TestFaultsOfSize: a file that no user can mean is refused before anything is planned.
func TestFaultsOfSize(t *testing.T) {
	t.Parallel()
	stages := make([]string, 1001)
	for i := range stages {
		stages[i] = fmt.Sprintf("name: s%d\nafter: []\nhosts: []", i)
	}
	check(t, []fragment{
		{testPipeline(test, stages[:1000]...), ""},
		{testPipeline(test, stages...), "4:1: the pipeline has 1001 stages, at most 1000"},
	}, func(text string) string { return text })
}
