package definition_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

func read(text string) (pipeline.Definition, fault.Problems) {
	node, problems := yamltree.Parse("waybill.yaml", []byte(text), yamltree.PipelineFile)
	d, more := definition.Read(node, nil)
	return d, append(problems, more...)
}

// TestExpressionsAreChecked: with its variables replaced, and the revision by a text that is valid in quotes only.
func TestExpressionsAreChecked(t *testing.T) {
	t.Parallel()
	node, _ := yamltree.Parse("waybill.yaml", []byte("vars: {n: 7}\n"+environmentWith("")+"  gates:\n"+
		"  - {name: right, cel: \"size(targets) == ${n}\"}\n"+
		"  - {name: wrong, cel: \"targets.x == '${revision} ${stage}'\"}\n"), yamltree.PipelineFile)
	var texts []string
	_, problems := definition.Read(node, func(text string) error {
		texts = append(texts, text)
		if strings.Contains(text, "targets.x") {
			return errors.New("at character 8: no")
		}
		return nil
	})
	if want := []string{"size(targets) == 7", `targets.x == '\U00000027 c'`}; !slices.Equal(texts, want) {
		t.Errorf("expressions: got %q, want %q", texts, want)
	}
	if len(problems) != 1 || problems[0].String() != `waybill.yaml:8:24: cel of gate "wrong": at character 8: no` {
		t.Errorf("problems: %v", problems)
	}
}

const greeter = `pipeline: greeter
service: {manager: process, exec: [./greeter, --listen, "127.0.0.1:${port}"]}
test: [{http: "http://127.0.0.1:${port}/ready"}]
stages:
- name: build
  build: .wharf-ci.yml
  artifacts: {amd64: dist/greeter.tar.gz}
- name: beta
  hosts: [{url: "local://oak", vars: {port: 7101}}]
- name: prod
  groups:
  - {name: east, hosts: [{url: "local://elm", vars: {port: 7102}}, {url: "local://fir", vars: {port: 7103}}]}
  - {name: west, hosts: [{url: "local://yew", vars: {port: 7104}}]}
`

func TestDefaultsAndChainsAreWrittenOut(t *testing.T) {
	t.Parallel()
	d, problems := read(greeter)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	got, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Compare(t, filepath.Join("testdata", "greeter.json"), string(got)+"\n")
}

func TestSchemaIsGenerated(t *testing.T) {
	t.Parallel()
	got, err := definition.Schema()
	if err != nil {
		t.Fatal(err)
	}
	goldentest.Compare(t, filepath.Join("..", "..", "api", "waybill.schema.json"), string(got))
}

// names returns the fields A1: x to An: x of a mapping.
func names(first, last int) string {
	var fields []string
	for i := first; i <= last; i++ {
		fields = append(fields, fmt.Sprintf("A%d: x", i))
	}
	return strings.Join(fields, ", ")
}

// pipeline is a small valid file with lines put in; each test expects their faults.
func testPipeline(top string, stages ...string) string {
	text := "pipeline: p\n" + top + "stages:\n"
	for _, s := range stages {
		text += "- " + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n  ") + "\n"
	}
	return text
}

const (
	beta  = "name: beta\nhosts: [\"local://oak\"]"
	build = "name: build\nbuild: .wharf-ci.yml\nartifacts: {amd64: dist/p.tar.gz}"
	test  = "test: [{tcp: \"127.0.0.1:1\"}]\n"
)

func TestKeysOfAliasesMeanNothing(t *testing.T) {
	t.Parallel()
	d, problems := read("x-port: &port {port: 8080}\n" +
		testPipeline("vars: *port\ntest: [{tcp: \"a:${port}\"}]\n", "name: a\nhosts: [\"local://x\"]"))
	if problems.Err() != nil || d.Vars["port"] != "8080" {
		t.Errorf("%v %v", d.Vars, problems)
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"two documents", "a: 1\n---\nb: 2\n", "2:1: a second document starts here; the file may have one only"},
		{"unknown key", testPipeline(test, "name: a\ngrups: []\nhosts: []"),
			`5:3: unknown key "grups" in stages[0] (did you mean "groups"?)`},
		{"unknown key at the top", testPipeline(test+"stage: x\n", beta), `3:1: unknown key "stage" (did you mean "stages"?)`},
		{"key twice", testPipeline(test, "name: a\nafter: []\nafter: []\nhosts: []"), `6:3: the key "after" is already at 5:3`},
		{"a name that it had, in use", testPipeline(test, beta, "name: live\nwas: [prod, beta]\nhosts: []"),
			`7:15: stage "live" was "beta", which is the name of a stage`},
		{"a name that no stage can have had", testPipeline(test, "name: live\nwas: [a/b]\nhosts: []"),
			`5:8: name "a/b": letters, digits, "-" and "." only`},
		{"wrong type", testPipeline(test, "name: a\nafter: {x: y}\nhosts: []"), "5:10: want a list of strings, found a mapping"},
		{"a time without a unit", testPipeline("retry: {attemptTimeout: 10}\n"+test, beta),
			"2:25: want a duration, found a number; give it a unit, such as 10s"},
		{"no time", testPipeline("retry: {attemptTimeout: 0s}\n"+test, beta), "2:25: retry.attemptTimeout must be above 0s"},
		{"no time to keep", testPipeline("keep: {entries: 59m}\n"+test, beta),
			"2:17: keep.entries: want at least 1h and at most 65535d, such as 400d"},
		{"kept forever", testPipeline("keep: {entries: 70000d}\n"+test, beta),
			"2:17: keep.entries: want at least 1h and at most 65535d, such as 400d"},
		{"missing name", testPipeline(test, "hosts: []"), "4:3: stages[0] needs a name"},
		{"missing stages", "pipeline: p\n", "1:1: the file needs stages"},
		{"missing pipeline", test + "stages: [{name: a, hosts: []}]\n", "1:1: the file needs a pipeline"},
		{"no stages", "pipeline: p\nstages: []\n", `2:9: "stages" must not be empty`},
		{"pipeline name", "pipeline: Greeter\n" + test + "stages: [{name: a, hosts: []}]\n",
			`1:11: pipeline name "Greeter": a-z, 0-9 and "-" only, at most 63`},
		{"host name", testPipeline(test, "name: a\nhosts:\n- {name: a/b, url: \"local://x\"}"),
			`6:12: host name "a/b": letters, digits, "-" and "." only`},
		{"reserved name", testPipeline(test, "name: a\ngroups:\n- {name: wave-2, hosts: []}"), `6:12: group name "wave-2" is reserved`},
		{"stage twice", testPipeline(test, beta, "name: beta\nhosts: [\"local://elm\"]"), `6:9: stage "beta" is already defined on line 4`},
		{"host twice", testPipeline(test, "name: a\nhosts: [\"local://x\", {url: \"local:///srv/x\"}]"),
			`5:24: host "x" is already defined on line 5`},
		{"two kinds", testPipeline(test, "name: x\nbuild: a\nhosts: []"), `4:3: stage "x" has both build and hosts`},
		{"too much work", testPipeline("steps: ["+steps(60)+"]\n"+test, "name: x\nhosts: ["+strings.Join(hosts(16_667), ", ")+"]"),
			"5:1: the pipeline has 1000020 steps on its hosts, at most 1000000"},
		{"no kind", testPipeline(test, "name: x"), `4:3: stage "x" needs build, hosts, groups, environment or gates`},
		{"artifact that is not unpacked", testPipeline(test, "name: b\nbuild: a\nartifacts: {x: x.tar.xz}"),
			`6:18: artifact "x.tar.xz": archives of the kind .tar.xz are not unpacked: make a .tar, .tar.gz, .tar.zst, .tar.bz2 or .zip`},
		{"artifact outside", testPipeline(test, "name: b\nbuild: a\nartifacts: {x: ../x}"),
			`6:18: artifact "../x" leaves the folder of waybill.yaml`},
		{"artifact twice", testPipeline(test, "name: b\nbuild: a\nartifacts: {x: d/x, y: ./d/x}"), `6:26: artifact "./d/x" is named twice`},
		{"build file outside", testPipeline(test, "name: b\nbuild: /etc/x"), `5:10: build file "/etc/x" leaves the folder of waybill.yaml`},
		{"ssh host without a user", testPipeline(test, "name: a\nhosts: [{url: \"ssh://oak\"}]"),
			"5:17: oak needs a user: ssh://user@oak, or ssh.user for all hosts"},
		{"short ssh host without a user", testPipeline(test, "name: a\nhosts: [oak.example.net]"),
			"5:11: oak.example.net needs a user: ssh://user@oak.example.net, or ssh.user for all hosts"},
		{"ssh host with a password", testPipeline(test, "name: a\nhosts: [\"ssh://u:p@oak\"]"),
			"5:11: the URL has a password: ssh hosts are entered with keys"},
		{"ssh host with a path", testPipeline(test, "name: a\nhosts: [\"ssh://u@oak/srv\"]"),
			"5:11: want ssh://[user@]host[:port], local://name or local:///dir"},
		{"ssh host with a port too many", testPipeline(test, "name: a\nhosts: [\"ssh://u@oak:70000\"]"),
			"5:11: want ssh://[user@]host[:port], local://name or local:///dir"},
		{"ssh host that is an option", testPipeline(test, "name: a\nhosts: [\"ssh://u@-oak\"]"),
			"5:11: want ssh://[user@]host[:port], local://name or local:///dir"},
		{"ssh user that is an option", testPipeline(test, "name: a\nhosts: [\"ssh://-u@oak\"]"),
			`5:11: user "-u": letters, digits, ".", "_" and "-" only`},
		{"ssh host without a name", testPipeline(test, "name: a\nhosts: [\"ssh://u@:22\"]"),
			"5:11: want ssh://[user@]host[:port], local://name or local:///dir"},
		{"key of a group beside hosts", testPipeline(test, "name: a\nhosts: [\"local://x\"]\nmaxParallel: 1"),
			`6:3: "maxParallel" belongs to a group: write groups: [{name: all, hosts: […], maxParallel: …}] in place of hosts`},
		{"host key", testPipeline(test, "name: a\nhosts: [{url: \"ssh://u@oak\", hostKey: \"MD5:00\"}]"),
			"5:41: want the fingerprint of the host's key, SHA256: and 43 characters, as ssh-keygen -l prints it"},
		{"ssh user", testPipeline("ssh: {user: \"a b\"}\n"+test, beta), `2:13: user "a b": letters, digits, ".", "_" and "-" only`},
		{"ssh port", testPipeline("ssh: {port: 0}\n"+test, beta), "2:13: ssh.port: want a whole number from 1 to 65535"},
		{"jump host", testPipeline("ssh: {jump: bastion}\n"+test, beta), "2:13: want ssh://[user@]host[:port]"},
		{"root above", testPipeline(test, "name: a\nhosts: [{url: \"ssh://u@oak\", root: \"../x\"}]"),
			`5:38: root "../x": want a folder; a relative one counts from the home of the account`},
		{"root with a tilde", testPipeline(test, "name: a\nhosts: [{url: \"ssh://u@oak\", root: \"~/x\"}]"),
			`5:38: root "~/x": want a folder; a relative one counts from the home of the account`},
		{"host URL", testPipeline(test, "name: a\nhosts: [{url: \"http://oak\"}]"),
			"5:17: want ssh://[user@]host[:port], local://name or local:///dir"},
		{"host URL with a password", testPipeline(test, "name: a\nhosts: [{url: \"local://u:p@oak\"}]"),
			"5:17: want ssh://[user@]host[:port], local://name or local:///dir"},
		{"deploy before replicate", testPipeline("steps: [deploy, replicate]\n"+test, beta), "2:9: deploy comes before replicate"},
		{"built-in twice", testPipeline("steps: [replicate, deploy, deploy]\n"+test, beta),
			`2:28: step "deploy" is already in the chain on line 2`},
		{"own step without a way", testPipeline("steps: [deploy, {name: cache-warmed}]\n"+test, beta),
			`2:17: step "cache-warmed" needs exactly one of run, request, handler`},
		{"env of a built-in step", testPipeline("steps: [{name: deploy, env: true}]\n"+test, beta),
			`2:29: env belongs to own steps, and "deploy" is built in`},
		{"a built-in step runs once", testPipeline("steps: [{name: deploy, once: true}]\n"+test, beta),
			`2:30: once belongs to own steps, and "deploy" is built in`},
		{"once that is neither true nor false",
			testPipeline("steps: [deploy, {name: migrate, run: [./m], once: first}]\n"+test, beta), "2:51: want a boolean, found a string"},
		{"waves beside the host of a step that runs once", testPipeline(
			"steps: [replicate, {name: migrate, run: [./m], once: true}, deploy]\n"+test,
			"name: a\ngroups: [{name: g, hosts: [\"local://elm\"]}, {name: h, hosts: [\"local://oak\"], waves: {sizes: [1]}}]"),
			`6:88: step "migrate" runs once, on g/elm, which is in no wave of group "h": name this group first`},
		{"own step with an event of ours", testPipeline("steps: [{name: failed, run: [a]}]\n"+test, beta),
			`2:16: step name "failed" is reserved: host-failed is an event of Waybill`},
		{"unknown step", testPipeline("steps: [deplyo]\n"+test, beta),
			`2:9: built-in step "deplyo" not found: want replicate, deploy, test, or {name: …, run: […]} (did you mean "deploy"?)`},
		{"long chain", testPipeline("steps: ["+steps(61)+"]\n"+test, beta), "2:8: chain has 61 steps, at most 60"},
		{"a shell line", testPipeline("service: {exec: \"./p --x\"}\n"+test, beta), "2:17: exec is an argument list, not a shell line"},
		{"a shell line in a test", testPipeline("test: [{run: ./t}]\n", beta), "2:14: run is an argument list, not a shell line"},
		{"process without exec", testPipeline("service: {manager: process}\n"+test, beta), "2:10: manager process needs exec"},
		{"systemd without exec", testPipeline("service: {manager: systemd}\n"+test, beta), "2:10: manager systemd needs exec or unit"},
		{"exec and unit", testPipeline("service: {manager: systemd, exec: [./p], unit: p.service}\n"+test, beta),
			"2:48: the service has both exec and unit"},
		{"unit without systemd", testPipeline("service: {manager: process, unit: p.service}\n"+test, beta),
			"2:10: unit needs manager systemd, not process"},
		{"unit of another kind", testPipeline("service: {unit: p.socket}\n"+test, beta),
			`2:17: unit "p.socket": want the name of a unit such as greeter.service`},
		{"unit that is an option", testPipeline("service: {unit: --now.service}\n"+test, beta),
			`2:17: unit "--now.service": want the name of a unit such as greeter.service`},
		{"unit with a variable", testPipeline("service: {unit: \"p@${port}.service\"}\n"+test, beta),
			`2:17: unit "p@${port}.service": want the name of a unit such as greeter.service`},
		{"long unit", testPipeline("service: {unit: "+strings.Repeat("p", 248)+".service}\n"+test, beta),
			`2:17: unit "` + strings.Repeat("p", 248) + `.service": want the name of a unit such as greeter.service`},
		{"unit of ours", testPipeline("service: {unit: waybill-p.service}\n"+test, beta),
			`2:17: unit "waybill-p.service": units named waybill-… are written by Waybill: set exec, or choose another name`},
		{"unit with an inherited secret", testPipeline("service: {exec: [a], secrets: {A: {file: a}}}\n"+test,
			beta+"\nservice: {unit: p.service}"),
			"7:12: the service has env or secrets, and unit p.service sets its environment itself"},
		{"variable not set", testPipeline("service: {exec: [a, \"${port}\"]}\n"+test,
			"name: prod\ngroups: [{name: east, hosts: [{name: bench, url: \"local://x\"}]}]"),
			"2:21: ${port} is not set for host prod/east/bench"},
		{"variable unclosed", testPipeline("service: {exec: [a, \"${port\"]}\n"+test, beta), `2:21: "${" is not closed in "${port"`},
		{"variable of ours", testPipeline("vars: {host: x}\n"+test, beta), "2:8: ${host} is set by Waybill: choose another name"},
		{"secret inline", testPipeline("service: {secrets: {DB_PASSWORD: hunter2}}\n"+test, beta),
			"2:34: secrets.DB_PASSWORD: want {file: …}"},
		{"env name", testPipeline("service: {env: {A-B: x}}\n"+test, beta), `2:17: env name "A-B": letters, digits and "_" only`},
		{"long env name", testPipeline("service: {env: {"+strings.Repeat("X", 256)+": x}}\n"+test, beta),
			`2:17: env name "` + strings.Repeat("X", 32) + `"… has 256 bytes, at most 255`},
		{"secret name of shells", testPipeline("service: {secrets: {UID: {file: /x}}}\n"+test, beta),
			`2:26: secret name "UID" is one that shells set themselves: choose another name`},
		{"env name of shells", testPipeline("service: {env: {UID: 5}}\n"+test, beta),
			`2:17: env name "UID" is one that shells set themselves: choose another name`},
		{"env with a list as its value", testPipeline("service: {env: {A: [x]}}\n"+test, beta), "2:20: want a scalar, found a list"},
		{"env with a zero byte", testPipeline("service: {env: {A: \"x\\0\"}}\n"+test, beta),
			"2:20: env.A has a zero byte, which no environment can hold"},
		{"env too long", testPipeline("service: {env: {A: "+strings.Repeat("x", 32<<10+1)+"}}\n"+test, beta),
			"2:20: env.A has 32769 bytes, at most 32768"},
		{"too much env", testPipeline("service: {env: {"+names(1, 600)+"}}\n"+test, beta+"\nservice: {env: {"+names(400, 1001)+"}}"),
			"7:18: the service has 1001 names in env, at most 1000"},
		{"variable of env not set", testPipeline("service: {env: {A: \"${port}\"}}\n"+test, beta),
			"2:20: ${port} is not set for host beta/all/oak"},
		{"env and secrets of one level", testPipeline("service: {secrets: {A: {file: a}}, env: {A: x}}\n"+test, beta),
			"2:42: A is in secrets of the service too"},
		{"env over an inherited secret", testPipeline("service: {secrets: {A: {file: a}}}\n"+test,
			beta+"\nservice: {env: {A: x}}"), "7:19: A is in secrets of the service too"},
		{"a secret over inherited env", testPipeline("service: {env: {A: x}}\n"+test,
			beta+"\nservice: {env: {B: x}, secrets: {A: {file: a}}}"), "7:36: A is in env of the service too"},
		{"duration", testPipeline("service: {ready: {for: soon}}\n"+test, beta), "2:24: service.ready.for: want a duration such as 30m"},
		{"duration without a unit", testPipeline("service: {ready: {for: 10}}\n"+test, beta),
			"2:24: want a duration, found a number; give it a unit, such as 10s"},
		{"percent", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], maxParallel: 120%}]"),
			"5:46: stages[0].groups[0].maxParallel: want a count such as 1, or a percentage such as 25%"},
		{"count", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], maxFailed: -1}]"),
			"5:44: stages[0].groups[0].maxFailed: want a count such as 1, or a percentage such as 25%"},
		{"for above within", testPipeline("service: {ready: {for: 2m}}\n"+test, beta),
			"2:18: ready.for (2m0s) must not be longer than ready.within (1m0s)"},
		{"confirm", testPipeline("service: {confirm: 30s}\n"+test, beta), "2:20: confirm (30s) must be longer than ready.within (1m0s)"},
		{"a check of ready",
			testPipeline("service: {exec: [a], ready: {checks: [{http: \"http://127.0.0.1:${port}\"}]}}\n"+test,
				"name: a\nhosts: [\"local://x\"]"),
			"2:46: ${port} is not set for host a/all/x"},
		{"window without a schedule", testPipeline(test, beta+"\nwindows: [{kind: Allow, duration: 1h}]"),
			"6:13: stages[0].windows[0] needs a schedule"},
		{"kind of a window", testPipeline(test, beta+"\nwindows: [{kind: allow, schedule: '@daily', duration: 1h}]"),
			`6:20: "allow" is none of Allow, Deny (did you mean "Allow"?)`},
		{"schedule of a window", testPipeline(test, beta+"\nwindows: [{kind: Allow, schedule: '0 9 * *', duration: 1h}]"),
			"6:37: want five fields (minute hour day month weekday), found 4"},
		{"time zone of a window", testPipeline(test,
			beta+"\nwindows: [{kind: Allow, schedule: '@daily', duration: 1h, timezone: Stockholm}]"),
			`6:71: time zone "Stockholm" not found: want one such as Europe/Stockholm, or UTC`},
		{"duration of a window", testPipeline(test, beta+"\nwindows: [{kind: Deny, schedule: '@daily', duration: 30s}]"),
			"6:56: stages[0].windows[0].duration: want 1m to 366d"},
		{"no windows", testPipeline(test, beta+"\nwindows: {kind: Deny}"), "6:12: want a list of mappings, found a mapping"},
		{"approvals that no user can give", testPipeline(test, beta+"\napproval: {count: 3, by: [ana, bob]}"),
			"6:21: 3 approvals wanted, 2 people may give them"},
		{"count of approvals", testPipeline(test, beta+"\napproval: {count: 0}"),
			"6:21: stages[0].approval.count: want a whole number from 1 to 100"},
		{"group of people", testPipeline(test, beta+"\napproval: {by: [ana, \"group:o ps\"]}"),
			`6:24: stages[0].approval.by[1]: group name "o ps": letters, digits, "-", "_" and "." only, at most 63`},
		{"person named twice", testPipeline(test, beta+"\napproval: {by: [ana, ana]}"), `6:24: "ana" is named twice`},
		{"person with a letter that is not drawn", testPipeline(test, beta+"\napproval: {by: [\"ana\u3164\"]}"),
			`6:19: stages[0].approval.by[0]: want visible characters only, not "ana\u3164"`},
		{"nobody may approve", testPipeline(test, beta+"\napproval: {by: []}"), "6:18: stages[0].approval.by: want 1 to 100 people"},
		{"reason of a window", testPipeline(test, beta+"\nwindows: [{kind: Deny, schedule: '@daily', duration: 1h, reason: \"a\\tb\"}]"),
			"6:68: stages[0].windows[0].reason: want at most 200 bytes without control characters"},
		{"waves without sizes", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], waves: {}}]"),
			"5:33: stages[0].groups[0].waves needs sizes"},
		{"waves of no size", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], waves: {sizes: []}}]"),
			`5:48: "sizes" must not be empty`},
		{"size of a wave", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], waves: {sizes: [1, 0%]}}]"),
			"5:52: stages[0].groups[0].waves.sizes[1]: want a count such as 1, or a percentage such as 25%"},
		{"too many waves", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], waves: {sizes: ["+
			strings.Repeat("1, ", 100)+"1]}}]"), "5:48: waves has 101 sizes, at most 100"},
		{"host named as a wave", testPipeline(test, "name: a\nhosts: [{name: wave-2, url: \"local://x\"}]"),
			`5:18: host name "wave-2" is reserved`},
		{"gate without a way", testPipeline(test, beta, "name: g\ngates: [{name: x}]"),
			`7:11: gate "x" needs exactly one of http, job, cel, handler`},
		{"gate without a URL", testPipeline(test, beta, "name: g\ngates: [{name: x, http: {}}]"),
			"7:21: stages[1].gates[0].http needs a url"},
		{"private address of a gate", testPipeline(test, beta, "name: g\ngates: [{name: x, http: {url: \"http://10.1.2.3:80/ready\"}}]"),
			"7:33: address 10.1.2.3 is refused: private; allowNetworks lets networks through"},
		{"loopback of a gate", testPipeline("vars: {at: \"[::1]\"}\n"+test, beta,
			"name: g\ngates: [{name: x, http: {url: \"http://${at}/\", allowNetworks: [127.0.0.0/8]}}]"),
			"8:33: address ::1 is refused: loopback; allowNetworks lets networks through"},
		{"URL of a gate", testPipeline(test, beta, "name: g\ngates: [{name: x, http: {url: \"ftp://x/\"}}]"),
			"7:33: url: want a URL such as https://example.net/ready"},
		{"password of a gate", testPipeline(test, beta, "name: g\ngates: [{name: x, http: {url: \"https://a:b@x/\"}}]"),
			"7:33: url: a user or password does not belong in an address"},
		{"network of a gate", testPipeline(test, beta,
			"name: g\ngates: [{name: x, http: {url: \"https://x\", allowNetworks: [10.0.0.0]}}]"),
			"7:62: stages[1].gates[0].http.allowNetworks[0]: want a network such as 10.0.0.0/8"},
		{"side of a gate", testPipeline(test, beta+"\ngates: [{name: x, when: before, http: {url: \"https://x\"}}]"),
			`6:27: "before" is none of Before, After (did you mean "Before"?)`},
		{"gate twice",
			testPipeline(test, beta+"\ngates: [{name: x, http: {url: \"https://x\"}}, {name: x, http: {url: \"https://x\"}}]"),
			`6:55: gate "x" is already defined on line 6`},
		{"failures of a gate", testPipeline(test, beta+"\ngates: [{name: x, http: {url: \"https://x\"}, failures: 0}]"),
			"6:57: stages[0].gates[0].failures: want a whole number from 1 to 1000"},
		{"gate with two ways", testPipeline(test, beta,
			"name: g\ngates: [{name: x, http: {url: \"https://x\"}, job: {run: [y]}}]"),
			`7:11: gate "x" needs exactly one of http, job, cel, handler`},
		{"job of a gate without run", testPipeline(test, beta+"\ngates: [{name: x, job: {}}]"), "6:21: stages[0].gates[0].job needs a run"},
		{"job of a gate as a shell line", testPipeline(test, beta+"\ngates: [{name: x, job: {run: ./smoke all}}]"),
			"6:32: run is an argument list, not a shell line"},
		{"job of a gate without a program", testPipeline(test, beta+"\ngates: [{name: x, job: {run: [\"\"]}}]"),
			"6:33: run must begin with a program"},
		{"long job of a gate", testPipeline(test, beta+"\ngates: [{name: x, job: {run: [x"+strings.Repeat(", x", 100)+"]}}]"),
			"6:32: stages[0].gates[0].job.run has 101 texts of 101 bytes together, at most 100 of 32768"},
		{"variable of a gate's job", testPipeline(test, beta+"\ngates: [{name: x, job: {run: [a, \"${host}\"]}}]"),
			"6:36: ${host} is not set for gate beta/x"},
		{"handler of a gate without a name", testPipeline(test, beta+"\ngates: [{name: x, handler: {parameters: {}}}]"),
			"6:21: stages[0].gates[0].handler needs a name"},
		{"handler of Waybill", testPipeline(test, beta+"\ngates: [{name: x, handler: {name: step}}]"),
			`6:37: handler "step" is for Waybill's own actions`},
		{"handler with a long name", testPipeline(test,
			beta+"\ngates: [{name: x, handler: {name: "+strings.Repeat("n", 64)+"}}]"), "6:37: the name of a handler has at most 63 bytes"},
		{"variable of a gate's handler", testPipeline(test,
			beta+"\ngates: [{name: x, handler: {name: y, parameters: {a: [1, {b: \"${host}\"}]}}}]"),
			"6:64: ${host} is not set for gate beta/x"},
		{"parameters of a gate's handler", testPipeline(test,
			beta+"\ngates: [{name: x, handler: {name: y, parameters: {a: "+strings.Repeat("z", 33<<10)+"}}}]"),
			"6:52: stages[0].gates[0].handler.parameters has 33800 bytes, at most 32768"},
		{"parameters that grow", testPipeline(test, beta+"\nvars: {v: "+strings.Repeat("z", 30<<10)+
			"}\ngates: [{name: x, handler: {name: y, parameters: {a: \"${v}${v}${v}${v}${v}${v}${v}${v}${v}\"}}}]"),
			"7:52: parameters: its texts have more than 262144 bytes with their variables replaced"},
		{"variable of a gate", testPipeline(test, beta+"\ngates: [{name: x, http: {url: \"https://${host}\"}}]"),
			"6:33: ${host} is not set for gate beta/x"},
		{"gate of a build", testPipeline(test, build+"\ngates: [{name: x, http: {url: \"https://x\"}}]"),
			`7:10: stage "build" builds: gates belongs to stages with hosts`},
		{"test of a gate stage", testPipeline(test, beta, "name: g\nafter: [beta]\ntest: []"),
			`8:9: stage "g" is a gate: test belongs to stages with hosts`},
		{"bake without a time", testPipeline(test, beta+"\nbake: {every: 1m}"), "6:3: stages[0].bake needs a for"},
		{"time of a bake", testPipeline(test, beta+"\nbake: {for: soon}"), "6:15: stages[0].bake.for: want a duration such as 30m"},
		{"rounds of a bake", testPipeline(test, beta+"\nbake: {for: 1m, every: 10ms}"),
			"6:26: stages[0].bake.every: want a duration from 1s to 1h"},
		{"long bake", testPipeline(test, beta+"\nbake: {for: 3d, every: 1s}"),
			"6:15: stages[0].bake.for (72h0m0s) is more than 10000 times every (1s)"},
		{"bake of a wave", testPipeline(test, "name: a\ngroups: [{name: g, hosts: [], waves: {sizes: [1], bake: 0s}}]"),
			"5:59: stages[0].groups[0].waves.bake must be above 0s"},
		{"bake of a build", testPipeline(test, build+"\nbake: {for: 1m}"), `7:9: stage "build" builds: bake belongs to stages with hosts`},
		{"targets of an environment", environmentOf("app: {apiVersion: a/v1, kind: K, name: n}, targets: []"),
			`4:69: "targets" must not be empty`},
		{"app of an environment", environmentOf("targets: [{cluster: x, namespace: y}]"), "4:3: stages[0].environment needs an app"},
		{"unknown key of an environment", environmentWith("soaks: 5m"),
			`4:99: unknown key "soaks" in stages[0].environment (did you mean "soak"?)`},
		{"same target twice", environmentOf("app: {apiVersion: a/v1, kind: K, name: n}, targets: [{cluster: x, namespace: y}, {cluster: x, namespace: y}]"),
			"4:98: target x/y is named twice"},
		{"name of a cluster", environmentOf("app: {apiVersion: a/v1, kind: K, name: n}, targets: [{cluster: \"a b\", namespace: y}]"),
			`4:80: stages[0].environment.targets[0].cluster: "a b" is not a name`},
		{"half of the targets", environmentWith("minReady: 50%"),
			"4:109: stages[0].environment.minReady: want more than half of the 1 targets and at most all"},
		{"version source without a key", environmentWith("versionSource: {type: label}"),
			"4:114: stages[0].environment.versionSource: type label needs key"},
		{"key of a version source", environmentWith("versionSource: {type: tag, key: a}"),
			"4:131: key belongs to the types label and annotation"},
		{"markers without a repository", environmentWith("versionSource: {type: marker}"),
			"4:114: the version source marker needs the strategy pull-request"},
		{"merge without a pull request", environmentWith("autoMerge: {method: squash}"),
			"4:110: autoMerge needs the strategy pull-request"},
		{"address of a repository", environmentWith("strategy: {pull-request: {type: gitea, url: \"ftp://x/y\", baseBranch: main}}"),
			"4:143: url: want the address of a repository such as https://git.example.com/apps/fleet"},
		{"no strategy in a strategy", environmentWith("strategy: {}"),
			"4:109: stages[0].environment.strategy: want one of pull-request and notification; without a strategy the stage waits for others"},
		{"two strategies", environmentWith("strategy: {pull-request: {type: gitea, url: \"https://x/y\", baseBranch: main}, " +
			"notification: {webhook: {url: \"https://x\"}}}"),
			"4:109: stages[0].environment.strategy: want one of pull-request and notification; " +
				"without a strategy the stage waits for others"},
		{"notification without a receiver", environmentWith("strategy: {notification: {}}"),
			"4:110: stages[0].environment.strategy.notification needs a webhook"},
		{"address of a receiver", environmentWith("strategy: {notification: {webhook: {url: x}}}"),
			"4:140: url: want a URL such as https://ci.example.com/promote"},
		{"password of a repository", environmentWith("strategy: {pull-request: {type: gitea, url: \"https://a:b@x/y\", baseBranch: main}}"),
			"4:143: url: a user or password does not belong in an address; the secret has them"},
		{"branch of a repository", environmentWith("strategy: {pull-request: {type: gitea, url: \"https://x/y\", baseBranch: \"a b\"}}"),
			`4:170: baseBranch: "a b" is not the name of a branch`},
		{"queue of an environment", environmentWith("soak: 1m}\n  queue: false\n  vars: {a: b"),
			`5:10: stage "c" promotes to an environment, so its queue is fifo or latest`},
		{"steps of an environment", environmentWith("soak: 1m}\n  test: []\n  vars: {a: b"),
			`5:9: stage "c" promotes to an environment: test belongs to stages with hosts`},
		{"hosts and an environment", environmentWith("soak: 1m}\n  hosts: []\n  vars: {a: b"),
			`3:3: stage "c" has both hosts and environment`},
		{"request", testPipeline("steps: [{name: x, request: {url: y}}]\n"+test, beta), `2:19: "request" is not yet supported`},
		{"inputs", testPipeline(test, "name: b\nbuild: {file: x, inputs: {a: b}}"), `5:20: "inputs" is not yet supported`},
		{"two ways to test", testPipeline("test: [{tcp: \"a:1\", run: [x]}]\n", beta), "2:8: test[0] needs exactly one of http, tcp, run"},
		{"headers of a port", testPipeline("test: [{tcp: \"a:1\", headers: {a: b}}]\n", beta), "2:30: headers belongs to http"},
		{"the name of a header", testPipeline("test: [{http: \"http://a/\", headers: {\"a b\": c}}]\n", beta),
			`2:38: "a b" is not the name of a header field`},
		{"the value of a header", testPipeline("test: [{http: \"http://a/\", headers: {a: \"b\\nc\"}}]\n", beta),
			"2:41: the value of a has a control character"},
		{"a variable of a header", testPipeline("test: [{http: \"http://a/\", headers: {a: \"${b}\"}}]\n", beta),
			"2:41: ${b} is not set for host beta/all/oak"},
		{"a test without a host", testPipeline("test: [{http: \"http://:80/x\"}]\n", beta),
			"2:15: http: want a URL such as http://127.0.0.1:${port}/ready"},
		{"shared outside", testPipeline("service: {shared: [../x]}\n"+test, beta),
			`2:20: shared "../x": want a path inside the release, such as data`},
		{"unknown after", testPipeline(test, beta, "name: prod\nafter: [bata]\nhosts: [\"local://elm\"]"),
			`7:11: stage "bata" not found (did you mean "beta"?)`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, problems := read(c.text)
			var got []string
			for _, p := range problems {
				if !p.Warning {
					got = append(got, p.String())
				}
			}
			if diff := cmp.Diff([]string{"waybill.yaml:" + c.want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s\n%s", diff, c.text)
			}
		})
	}
}

func steps(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("{name: s%d, run: [a]}", i)
	}
	return strings.Join(names, ", ")
}

func hosts(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf(`"local://h%d"`, i)
	}
	return names
}

// TestAddressesOfGates: networks that are allowed, public addresses and names are not refused.
func TestAddressesOfGates(t *testing.T) {
	t.Parallel()
	for _, request := range []string{`url: "http://127.0.0.1:8080/", allowNetworks: [127.0.0.0/8]`,
		`url: "https://[2606:4700::1111]/"`, `url: "https://${revision}.example.net/"`} {
		if _, problems := read(testPipeline(test, beta, "name: g\ngates: [{name: x, http: {"+request+"}}]")); problems.Err() != nil {
			t.Errorf("%s: %v", request, problems.Err())
		}
	}
}

func TestEveryFaultAtOnce(t *testing.T) {
	t.Parallel()
	_, problems := read("pipeline: p\norder: first\nstages:\n- name: a/b\n  after: [x]\n  hosts: [oak]\n- name: c\n" +
		"  queue: lifo\n  retry: {deadline: 0s}\n  hosts: []\n")
	var lines []int
	for _, p := range problems {
		if !p.Warning {
			lines = append(lines, p.Line)
		}
	}
	if diff := cmp.Diff([]int{2, 4, 5, 6, 8, 9}, lines); diff != "" {
		t.Errorf("lines of the faults (-want +got)\n%s\n%v", diff, problems)
	}
}

// TestSSHHostsAreStoredWhole: where a deployment goes depends on the file alone.
func TestSSHHostsAreStoredWhole(t *testing.T) {
	t.Parallel()
	key := "SHA256:" + strings.Repeat("A", 43)
	d, problems := read(testPipeline(
		"ssh: {user: deploy, port: 2222, identity: ~/.ssh/id, jump: \"ssh://me@bastion\", jumpKey: \""+key+
			"\", sudo: true}\ntest: [{run: [x]}]\n",
		"name: a\nhosts: [oak.example.net, \"ssh://root@ELM:22\", {url: \"ssh://[::1]\", name: six, hostKey: \""+key+"\", root: srv}]"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	want := []pipeline.Host{
		{Name: "oak.example.net", URL: "ssh://deploy@oak.example.net:2222"},
		{Name: "ELM", URL: "ssh://root@elm:22"},
		{Name: "six", URL: "ssh://deploy@[::1]:2222", HostKey: key, Root: "srv"},
	}
	if diff := cmp.Diff(want, d.Stages[0].Groups[0].Hosts); diff != "" {
		t.Errorf("hosts (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(&pipeline.SSH{Identity: "~/.ssh/id", Jump: "ssh://me@bastion:2222", JumpKey: key, Sudo: true}, d.SSH); diff != "" {
		t.Errorf("ssh (-want +got)\n%s", diff)
	}
	if got := definition.Address(want[2]); got != "::1" {
		t.Errorf("${address} is %s", got)
	}
}

func TestRetryOfATestIsShortUnlessItIsSet(t *testing.T) {
	t.Parallel()
	minute, step := action.Duration(time.Minute), action.Duration(10*time.Minute)
	for name, c := range map[string]struct {
		retry, test    string
		timeout        action.Duration
		retries        int
		deploysTimeout action.Duration
	}{
		"nothing is set":       {"", `[{tcp: "127.0.0.1:80"}]`, minute, 0, step},
		"retry sets the time":  {"retry: {attemptTimeout: 3m}\n", `[{tcp: "127.0.0.1:80"}]`, 3 * minute, 0, 3 * minute},
		"retry sets how often": {"retry: {backoff: {retries: 4}}\n", `[{tcp: "127.0.0.1:80"}]`, minute, 4, step},
		"the checks take longer": {"", `[{run: [./a], timeout: 2m}, {run: [./b], timeout: 1m}]`,
			3*minute + action.Duration(10*time.Second), 0, step},
	} {
		text := "pipeline: p\n" + c.retry + "service: {manager: none}\ntest: " + c.test +
			"\nstages:\n- {name: build, build: .wharf-ci.yml, artifacts: {any: a.tar}}\n- {name: beta, hosts: [\"local://h\"]}\n"
		d, problems := read(text)
		if err := problems.Err(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		chain := d.Stages[1].Chain
		if p := chain[2].Policy; p.AttemptTimeout != c.timeout || p.Retries != c.retries {
			t.Errorf("%s: a test has %d retries of %s, want %d of %s", name, p.Retries, time.Duration(p.AttemptTimeout),
				c.retries, time.Duration(c.timeout))
		}
		if p := chain[1].Policy; p.AttemptTimeout != c.deploysTimeout {
			t.Errorf("%s: deploy has %s, want %s", name, time.Duration(p.AttemptTimeout), time.Duration(c.deploysTimeout))
		}
	}
}

func TestVariableNotSetNamesAHostWhoseURLIsWrong(t *testing.T) {
	t.Parallel()
	_, problems := read(testPipeline("service: {exec: [a, \"${prt}\"]}\n"+test, "name: beta\nhosts: [\"local:\"]"))
	if text := problems.Err(); text == nil || !strings.Contains(text.Error(), "${prt} is not set for host beta/all/local:") {
		t.Errorf("got %v", text)
	}
}

// environmentOf returns a pipeline of one stage, whose environment has the given keys.
func environmentOf(keys string) string {
	return "pipeline: p\nstages:\n- name: c\n  environment: {" + keys + "}\n"
}

// environmentWith returns a pipeline of one stage, whose environment has the given keys besides the required ones.
func environmentWith(keys string) string {
	return environmentOf("app: {apiVersion: a/v1, kind: K, name: n}, targets: [{cluster: x, namespace: y}], " + keys)
}
