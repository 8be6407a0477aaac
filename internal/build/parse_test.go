package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// tree reads YAML that must be sound as such.
func tree(t testing.TB, file string) *document.Node {
	t.Helper()
	node, problems := yamltree.Parse("f", []byte(file), yamltree.BuildFile)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return node
}

// ok is a step that has nothing wrong.
const ok = "{container: {image: i, cmds: [x]}}"

// faults are files with the problems that they have, and whether the JSON Schema sees them too.
var faults = map[string]struct {
	file, want string
	schema     bool // the schema refuses the file
}{
	"sound": {"test: {unit: " + ok + "}", "", false},
	"every key": {
		"environments: {e: {a: 1, b: null}, f: }\ntest:\n  environments: [e]\n  runs-if: always\n  fail-fast: false\n  unit:\n" +
			"    timeout: 10m\n    artifacts: [a, {path: \"b/**\", name: n, archive: true, when: always}]\n" +
			"    container: {image: i, cmds: [x], os: linux, shell: bash}", "", false},
	"several at once": {"test:\n  unit:\n    container: {imag: i, cmds: x}\nother: 5\n",
		"f:3:5: test/unit/container: the field \"image\" is missing\n" +
			"f:3:17: warning: test/unit/container: unknown key \"imag\" (did you mean \"image\"?)\n" +
			"f:3:32: test/unit/container/cmds: want a list of strings, found a string\nf:4:8: other: want a mapping of steps, found a number", true},
	"inputs none": {"inputs: []" + "\ntest: {unit: " + ok + "}", "", false},
	"inputs sound": {
		"inputs: [{name: a, type: string}, {name: b, type: password, default: \"\"}, {name: c, type: number, default: 1.50}, " +
			"{name: d, type: choice, values: [x, \"1.10\"], default: x}, {name: e, type: string, default: \"${a}\"}]" +
			"\ntest: {unit: " + ok + "}", "", false},
	"inputs a mapping": {"inputs: {a: b}" + "\ntest: {unit: " + ok + "}",
		"f:1:9: inputs: want a list of inputs, found a mapping", true},
	"input a string": {"inputs: [a]" + "\ntest: {unit: " + ok + "}",
		"f:1:10: inputs/0: want a mapping, found a string", true},
	"input without name and type": {"inputs: [{}]" + "\ntest: {unit: " + ok + "}",
		"f:1:10: inputs/0: the field \"name\" is missing\nf:1:10: inputs/0: the field \"type\" is missing", true},
	"input name empty": {"inputs: [{name: \"\", type: string}]" + "\ntest: {unit: " + ok + "}",
		"f:1:17: inputs/0/name: \"name\" must not be empty", true},
	"input type unknown": {"inputs: [{name: a, type: chioce, values: [x], default: 1}]" +
		"\ntest: {unit: " + ok + "}",
		"f:1:26: inputs/0/type: \"chioce\" is none of string, password, number, choice (did you mean \"choice\"?)", true},
	"input type from a variable": {"inputs: [{name: a, type: \"${t}\"}]" + "\ntest: {unit: " + ok + "}",
		"f:1:26: inputs/0/type: \"${t}\" is none of string, password, number, choice", true},
	"input defaults of other kinds": {
		"inputs: [{name: a, type: string, default: 1.10}, {name: b, type: password, default: true}, {name: c, type: number, " +
			"default: \"1\"}, {name: d, type: number, default: \"${c}\"}]" + "\ntest: {unit: " + ok + "}",
		"f:1:43: inputs/0/default: want a string, found a number; write \"1.10\" in quotes\n" +
			"f:1:85: inputs/1/default: want a string, found a boolean; write \"true\" in quotes\n" +
			"f:1:125: inputs/2/default: want a number, found a string\nf:1:164: inputs/3/default: want a number, found a string", true},
	"input default nothing": {"inputs: [{name: a, type: string, default: }]" + "\ntest: {unit: " + ok + "}",
		"f:1:43: inputs/0/default: want a string, found nothing", true},
	"choice without values and default": {"inputs: [{name: a, type: choice}]" + "\ntest: {unit: " + ok + "}",
		"f:1:10: inputs/0: the field \"default\" is missing\nf:1:10: inputs/0: the field \"values\" is missing", true},
	"choice without a value": {"inputs: [{name: a, type: choice, values: [], default: x}]" +
		"\ntest: {unit: " + ok + "}", "f:1:42: inputs/0/values: \"values\" must not be empty", true},
	"choice default not a value": {"inputs: [{name: a, type: choice, values: [info, debug], default: inof}]" +
		"\ntest: {unit: " + ok + "}", "f:1:66: inputs/0/default: \"inof\" is none of info, debug (did you mean \"info\"?)", false},
	"values of a string": {"inputs: [{name: a, type: string, values: [x]}]" + "\ntest: {unit: " + ok + "}",
		"f:1:34: inputs/0: unknown key \"values\"", true},
	"input repeated": {"inputs: [{name: a, type: string}, {name: a, type: chioce}]" +
		"\ntest: {unit: " + ok + "}",
		"f:1:42: inputs/1: the input \"a\" is already at 1:17\n" +
			"f:1:51: inputs/1/type: \"chioce\" is none of string, password, number, choice (did you mean \"choice\"?)", true},
	"environments a list": {"environments: [a]\n",
		"f:1:15: environments: want a mapping of names to variables, found a list", true},
	"environment a string": {"environments: {a: b}\n",
		"f:1:19: environments/a: want a mapping of variables, found a string", true},
	"variable a list": {"environments: {a: {b: [c]}}\n", "f:1:23: environments/a/b: want a scalar, found a list", true},
	"stage a scalar":  {"test: x\n", "f:1:7: test: want a mapping of steps, found a string", true},
	"stage misspelt reserved": {"Environments: 5\n",
		"f:1:15: Environments: want a mapping of steps, found a number; \"Environments\" is a stage, did you mean \"environments\"?", true},
	"environments as a stage": {"Environments: {prod: {ns: shop}}\n",
		"f:1:23: Environments/prod: \"ns\" is neither a step type nor a key of a step; \"Environments\" is a stage, did you " +
			"mean \"environments\"?", true},
	"step absent": {"test: {a: }",
		"f:1:11: test/a: the step has no type; want one of container, docker, helm, helm-package, kubectl, nuget-package", true},
	"stage empty":           {"test: {}\n", "f:1:7: test: the stage has no steps", true},
	"stage absent":          {"test:\nother: {a: " + ok + "}", "f:1:6: test: the stage has no steps", true},
	"stage with a key only": {"test: {runs-if: always}", "", false},
	"environment unknown": {"environments: {stage: {}}\ntest:\n  environments: [stag]\n  a: " + ok,
		"f:3:18: test/environments[0]: environment \"stag\" not found (did you mean \"stage\"?)", false},
	"environment empty": {"environments: {stage: {}}\ntest:\n  environments: [\"\"]\n  a: " + ok,
		"f:3:18: test/environments[0]: the name of an environment must not be empty", false},
	"environments no list": {"test:\n  environments: stage\n  a: " + ok,
		"f:2:17: test/environments: want a list of strings, found a string", true},
	"environment a number": {"test:\n  environments: [1]\n  a: " + ok,
		"f:2:18: test/environments[0]: want a string, found a number", true},
	"runs-if unknown": {"test:\n  runs-if: maybe\n  a: " + ok,
		"f:2:12: test/runs-if: \"maybe\" is none of success, fail, always", true},
	"runs-if a boolean": {"test:\n  runs-if: true\n  a: " + ok, "f:2:12: test/runs-if: want a string, found a boolean", true},
	"fail-fast a string": {"test:\n  fail-fast: \"no\"\n  a: " + ok,
		"f:2:14: test/fail-fast: want a boolean, found a string", true},
	"run-if and fail-fast are steps": {"test:\n  run-if: " + ok + "\n  fail-fast: " + ok, "", false},
	"step a scalar": {"test: {a: x}",
		"f:1:11: test/a: want a step, a mapping with a step type such as container, found a string", true},
	"step without a type": {"test: {a: {timeout: 1m}}",
		"f:1:11: test/a: the step has no type; want one of container, docker, helm, helm-package, kubectl, nuget-package", true},
	"step type unknown": {"test: {a: {contaner: {}}}",
		"f:1:12: test/a: \"contaner\" is neither a step type nor a key of a step (did you mean \"container\"?)", true},
	"step type of another system": {"test: {a: {script: [x]}}",
		"f:1:12: test/a: \"script\" is neither a step type nor a key of a step; the types are container, docker, helm, " +
			"helm-package, kubectl, nuget-package", true},
	"key of another system": {"test: {a: {depends: [x], container: {image: i, cmds: [x]}}}",
		"f:1:12: test/a: \"depends\" is neither a step type nor a key of a step", true},
	"two types, insides checked": {"test:\n  a:\n    container: {image: i}\n    helm: {}\n",
		"f:3:5: test/a/container: the field \"cmds\" is missing\n" +
			"f:3:5: test/a: the step has 2 types, container and helm; want one\nf:4:5: test/a/helm: the field \"chart\" is " +
			"missing\nf:4:5: test/a/helm: the field \"name\" is missing\nf:4:5: test/a/helm: the field \"namespace\" is missing", true},
	"type a list": {"test: {a: {container: []}}", "f:1:23: test/a/container: want a mapping, found a list", true},
	"image a number": {"test: {a: {container: {image: 1.10, cmds: [x]}}}",
		"f:1:31: test/a/container/image: want a string, found a number; write \"1.10\" in quotes", true},
	"image nothing": {"test: {a: {container: {image: , cmds: [x]}}}",
		"f:1:31: test/a/container/image: want a string, found nothing", true},
	"image empty": {"test: {a: {container: {image: \"\", cmds: [x]}}}",
		"f:1:31: test/a/container/image: \"image\" must not be empty", true},
	"cmds empty": {"test: {a: {container: {image: i, cmds: []}}}",
		"f:1:40: test/a/container/cmds: \"cmds\" must not be empty", true},
	"command with a colon": {"test: {a: {container: {image: i, cmds: [echo a: b]}}}",
		"f:1:41: test/a/container/cmds[0]: want a string, found a mapping; a string with \": \" in it needs quotes", true},
	"command a boolean": {"test: {a: {container: {image: i, cmds: [x, true]}}}",
		"f:1:44: test/a/container/cmds[1]: want a string, found a boolean; write \"true\" in quotes", true},
	"os unknown": {"test: {a: {container: {image: i, cmds: [x], os: linus}}}",
		"f:1:49: test/a/container/os: \"linus\" is none of linux, windows (did you mean \"linux\"?)", true},
	"timeout not a duration": {"test: {a: {timeout: 10x, container: {image: i, cmds: [x]}}}",
		"f:1:21: test/a/timeout: \"10x\" is not a valid duration; write one such as 90s, 10m or 1h30m", false},
	"timeout a number": {"test: {a: {timeout: 10, container: {image: i, cmds: [x]}}}",
		"f:1:21: test/a/timeout: want a duration, found a number; give it a unit, such as 10s", true},
	"timeout not positive": {"test: {a: {timeout: -1m, container: {image: i, cmds: [x]}}}",
		"f:1:21: test/a/timeout: \"-1m\" is not a valid duration; write one such as 90s, 10m or 1h30m", false},
	"artifacts a string": {"test: {a: {artifacts: x, container: {image: i, cmds: [x]}}}",
		"f:1:23: test/a/artifacts: want a list of strings or mappings, found a string", true},
	"artifact leaves": {
		"test: {a: {artifacts: [../x, /y, a/../../z], container: {image: i, cmds: [x]}}}",
		"f:1:24: test/a/artifacts[0]: \"../x\" leaves the workspace\n" +
			"f:1:30: test/a/artifacts[1]: \"/y\" leaves the workspace\nf:1:34: test/a/artifacts[2]: \"a/../../z\" leaves the workspace", false},
	"artifact not a glob": {"test: {a: {artifacts: [\"[x\"], container: {image: i, cmds: [x]}}}",
		"f:1:24: test/a/artifacts[0]: \"[x\" is not a valid glob: a bracket or a backslash at its end is not closed", false},
	"artifact without a path": {"test: {a: {artifacts: [{name: x}], container: {image: i, cmds: [x]}}}",
		"f:1:24: test/a/artifacts[0]: the field \"path\" is missing", true},
	"artifact with a key too many": {"test: {a: {artifacts: [{path: x, pth: y}], container: {image: i, cmds: [x]}}}",
		"f:1:34: test/a/artifacts[0]: unknown key \"pth\" (did you mean \"path\"?)", true},
	"artifact when unknown": {
		"test: {a: {artifacts: [{path: x, when: never}], container: {image: i, cmds: [x]}}}",
		"f:1:40: test/a/artifacts[0]/when: \"never\" is none of success, fail, always", true},
	"needs": {"a: {x: {needs: [y], container: {image: i, cmds: [x]}}, y: " + ok +
		"}\nb: {y: {needs: [], container: {image: i, cmds: [x]}}, z: {needs: [y, a/y, x], container: {image: i, cmds: [x]}}}", "", false},
	"need unknown": {"a: {build: " + ok +
		", x: {needs: [biuld, a/y], container: {image: i, cmds: [x]}}}",
		"f:1:60: a/x/needs[0]: step \"biuld\" not found (did you mean \"build\"?)\n" +
			"f:1:67: a/x/needs[1]: step \"a/y\" not found (did you mean \"a/x\"?)", false},
	"need ambiguous": {"a: {x: " + ok + "}\nb: {x: " + ok +
		"}\nc: {y: {needs: [x], container: {image: i, cmds: [x]}}}", "f:3:17: c/y/needs[0]: 2 stages have a step \"x\"; write stage/x", false},
	"need itself": {"a: {x: {needs: [x], container: {image: i, cmds: [x]}}}",
		"f:1:17: a/x/needs: these steps wait for each other: a/x → a/x", false},
	"needs in a circle": {
		"a: {x: {needs: [y], container: {image: i, cmds: [x]}}, y: {needs: [b/z], container: {image: i, cmds: [x]}}}\nb: {z: " +
			"{needs: [a/x], container: {image: i, cmds: [x]}}}", "f:2:17: b/z/needs: these steps wait for each other: a/x → a/y → b/z → a/x", false},
	"needs no list": {"a: {x: {needs: y, container: {image: i, cmds: [x]}}}",
		"f:1:16: a/x/needs: want a list of strings, found a string", true},
	"retry": {
		"a: {x: {retry: {attempts: 3, on: [timeout, infrastructure], backoff: 1m}, container: {image: i, cmds: [x]}}}", "", false},
	"retry without attempts": {"a: {x: {retry: {on: [failure]}, container: {image: i, cmds: [x]}}}",
		"f:1:9: a/x/retry: the field \"attempts\" is missing", true},
	"retry out of range": {
		"a: {x: {retry: {attempts: 11}, container: {image: i, cmds: [x]}}, y: {retry: {attempts: 0}, container: {image: i, " +
			"cmds: [x]}}, z: {retry: {attempts: 1.5}, container: {image: i, cmds: [x]}}}",
		"f:1:27: a/x/retry/attempts: want a whole number from 1 to 10\n" +
			"f:1:89: a/y/retry/attempts: want a whole number from 1 to 10\nf:1:150: a/z/retry/attempts: want a whole number from 1 to 10", false},
	"retry on something else": {
		"a: {x: {retry: {attempts: 2, on: [failure, luck], backoff: 0s}, container: {image: i, cmds: [x]}}}",
		"f:1:44: a/x/retry/on[1]: \"luck\" is none of failure, timeout, infrastructure\n" +
			"f:1:60: a/x/retry/backoff: \"0s\" is not a valid duration; write one such as 90s, 10m or 1h30m", true},
	"matrix": {
		"a: {x: {matrix: {go: [1.25, 1.26], db: [pg, \"${db}\"], exclude: [{go: 1.25, db: pg}]}, container: {image: " +
			"\"go:${matrix.go}\", cmds: [x]}}, y: {needs: [x], container: {image: i, cmds: [x]}}}", "", false},
	"matrix without an axis": {"a: {x: {matrix: {exclude: [{go: 1}]}, container: {image: i, cmds: [x]}}}",
		"f:1:17: a/x/matrix: the matrix has no axis, such as go: [1.25, 1.26]\n" +
			"f:1:29: a/x/matrix/exclude[0]: the matrix has no axis \"go\"", false},
	"matrix axis without values": {"a: {x: {matrix: {go: []}, container: {image: i, cmds: [x]}}}",
		"f:1:22: a/x/matrix/go: the axis \"go\" has no values", false},
	"matrix axis no list": {
		"a: {x: {matrix: {go: 1, db: [[pg]], exclude: [1]}, container: {image: i, cmds: [x]}}}",
		"f:1:22: a/x/matrix/go: want a list, found a number\nf:1:30: a/x/matrix/db[0]: want a scalar, found a list\n" +
			"f:1:47: a/x/matrix/exclude[0]: want a mapping of axes to values, found a number", false},
	"matrix excludes an axis": {
		"a: {x: {matrix: {go: [1], exclude: [{og: 1}, {go: [1]}, {}]}, container: {image: i, cmds: [x]}}}",
		"f:1:38: a/x/matrix/exclude[0]: the matrix has no axis \"og\"\n" +
			"f:1:51: a/x/matrix/exclude[1]/go: want a scalar, found a list\nf:1:57: a/x/matrix/exclude[2]: the exclusion names no axis", false},
	"matrix with a value twice": {"a: {x: {matrix: {go: [1.10, \"1.10\"]}, container: {image: i, cmds: [x]}}}",
		"f:1:29: a/x/matrix/go[1]: the axis \"go\" has the value 1.10 twice", false},
	"matrix without a combination": {
		"a: {x: {matrix: {go: [1, \"${v}\"], exclude: [{go: 1}, {go: \"${v}\"}]}, container: {image: i, cmds: [x]}}}",
		"f:1:17: a/x/matrix: every combination is excluded", false},
	"matrix too large": {
		"a: {x: {matrix: {a: [1, 2, 3, 4], b: [1, 2, 3, 4], c: [1, 2, 3, 4], d: [1, 2, 3, 4], e: [1, 2]}, container: {image: " +
			"i, cmds: [x]}}}", "f:1:17: a/x/matrix: the matrix has more than 256 combinations", false},
	"cache": {
		"a: {x: {cache: [{key: \"go-${hash:go.*}\", paths: [.cache, \"m/**\"], restore: [go-]}], container: {image: i, cmds: [x]}}}", "", false},
	"cache without key and paths": {"a: {x: {cache: [{}], container: {image: i, cmds: [x]}}}",
		"f:1:17: a/x/cache[0]: the field \"key\" is missing\nf:1:17: a/x/cache[0]: the field \"paths\" is missing", true},
	"cache that leaves the workspace": {
		"a: {x: {cache: [{key: k, paths: [../x, \"[x\"]}], container: {image: i, cmds: [x]}}}",
		"f:1:34: a/x/cache[0]/paths[0]: \"../x\" leaves the workspace\n" +
			"f:1:40: a/x/cache[0]/paths[1]: \"[x\" is not a valid glob: a bracket or a backslash at its end is not closed", false},
	"cache key with a bad glob": {
		"a: {x: {cache: [{key: \"${hash:[x}\", paths: [x]}], container: {image: i, cmds: [x]}}}",
		"f:1:23: a/x/cache[0]/key: ${hash:[x}: a bracket or a backslash at its end is not closed", false},
	"cache with a bad glob to restore": {
		"a: {x: {cache: [{key: k, restore: [a, \"${hash:[x}\"], paths: [x]}], container: {image: i, cmds: [x]}}}",
		"f:1:39: a/x/cache[0]/restore[1]: ${hash:[x}: a bracket or a backslash at its end is not closed", false},
	"secrets": {"a: {x: {secrets: [TOKEN, _a1], container: {image: i, cmds: [x]}}}", "", false},
	"secret that is not a name": {"a: {x: {secrets: [A-B, \"1\"], container: {image: i, cmds: [x]}}}",
		"f:1:19: a/x/secrets[0]: \"A-B\" cannot be the name of an environment variable\n" +
			"f:1:24: a/x/secrets[1]: \"1\" cannot be the name of an environment variable", false},
	"services and resources": {
		"a: {x: {services: [{name: db, image: \"pg:18\", env: {A: 1, B: x, C: true}, cmds: [a, b], ports: [5432, 80], ready: " +
			"0s}, {name: c, image: i}], resources: {requests: {cpu: 500m, memory: 1Gi}, limits: {cpu: 2, memory: 1.5G, " +
			"ephemeral-storage: 1e9}}, container: {image: i, cmds: [x]}}}", "", false},
	"services no list": {"a: {x: {services: {db: {}}, container: {image: i, cmds: [x]}}}",
		"f:1:19: a/x/services: want a list of mappings, found a mapping", true},
	"service without name and image": {"a: {x: {services: [{}], container: {image: i, cmds: [x]}}}",
		"f:1:20: a/x/services[0]: the field \"image\" is missing\nf:1:20: a/x/services[0]: the field \"name\" is missing", true},
	"service names": {
		"a: {x: {services: [{name: DB, image: i}, {name: localhost, image: i}, {name: a, image: i}, {name: a, image: i}, " +
			"{name: -a, image: i}], container: {image: i, cmds: [x]}}}",
		"f:1:27: a/x/services[0]/name: \"DB\" cannot be the name of a host; write lower-case letters, digits and dashes\n" +
			"f:1:49: a/x/services[1]/name: \"localhost\" cannot be the name of a host; write lower-case letters, digits and " +
			"dashes\nf:1:99: a/x/services[3]/name: the step has two services \"a\"\n" +
			"f:1:120: a/x/services[4]/name: \"-a\" cannot be the name of a host; write lower-case letters, digits and dashes", false},
	"service env, ports and ready": {
		"a: {x: {services: [{name: a, image: i, env: {A-B: 1, C: [x]}, ports: [0, 65536, x, 80], ready: 2h}, {name: b, image: " +
			"i, ports: [1], ready: -1s}, {name: c, image: i, env: [x], ports: 80, cmds: x, ready: 5, port: 1}], container: " +
			"{image: i, cmds: [x]}}}",
		"f:1:51: a/x/services[0]/env/A-B: \"A-B\" cannot be the name of an environment variable\n" +
			"f:1:57: a/x/services[0]/env/C: want a scalar, found a list\n" +
			"f:1:71: a/x/services[0]/ports[0]: \"0\" is not a port; want a number from 1 to 65535\n" +
			"f:1:74: a/x/services[0]/ports[1]: \"65536\" is not a port; want a number from 1 to 65535\n" +
			"f:1:81: a/x/services[0]/ports[2]: \"x\" is not a port; want a number from 1 to 65535\n" +
			"f:1:96: a/x/services[0]/ready: \"2h\" is not a duration of up to 1h0m0s; write one such as 90s, or 0s for no wait\n" +
			"f:1:140: a/x/services[1]/ready: \"-1s\" is not a duration of up to 1h0m0s; write one such as 90s, or 0s for no " +
			"wait\nf:1:171: a/x/services[2]/env: want a mapping of scalars, found a list\n" +
			"f:1:183: a/x/services[2]/ports: want a list of scalars, found a number\n" +
			"f:1:193: a/x/services[2]/cmds: want a list of strings, found a string\nf:1:203: a/x/services[2]/ready: want a " +
			"duration, found a number; give it a unit, such as 5s\nf:1:206: a/x/services[2]: unknown key \"port\" (did you mean \"ports\"?)", true},
	"resources no mapping": {
		"a: {x: {resources: 2, container: {image: i, cmds: [x]}}, y: {resources: {limits: {cpu: [2]}, request: {}}, " +
			"container: {image: i, cmds: [x]}}}",
		"f:1:20: a/x/resources: want a mapping, found a number\nf:1:88: a/y/resources/limits/cpu: want a string or a number, " +
			"found a list\nf:1:94: a/y/resources: unknown key \"request\" (did you mean \"requests\"?)", true},
	"quantities": {
		"a: {x: {resources: {limits: {cpu: 0, memory: 1GB, ephemeral-storage: \"-1\"}, requests: {cpu: 2 cores, memory: " +
			"2000Ti, ephemeral-storage: \"\"}}, container: {image: i, cmds: [x]}}}",
		"f:1:35: a/x/resources/limits/cpu: \"0\" is not a valid amount; write one such as 2, 0.5 or 500m\n" +
			"f:1:46: a/x/resources/limits/memory: \"1GB\" is not a valid amount; write one such as 512Mi or 2G\n" +
			"f:1:70: a/x/resources/limits/ephemeral-storage: \"-1\" is not a valid amount; write one such as 512Mi or 2G\n" +
			"f:1:93: a/x/resources/requests/cpu: \"2 cores\" is not a valid amount; write one such as 2, 0.5 or 500m\n" +
			"f:1:110: a/x/resources/requests/memory: \"2000Ti\" is not a valid amount; write one such as 512Mi or 2G\n" +
			"f:1:137: a/x/resources/requests/ephemeral-storage: \"\" is not a valid amount; write one such as 512Mi or 2G", false},
	"request beyond the limit": {
		"a: {x: {resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1500m, memory: 1G}}, container: {image: " +
			"i, cmds: [x]}}}", "f:1:68: a/x/resources/requests/cpu: the request is more than the limit", false},
	"container in a cluster": {
		"a: {x: {container: {image: i, cmds: [x], secretName: s.1, serviceAccount: deploy, certificatesMountPath: /mnt/c}}}", "", false},
	"container names": {
		"a: {x: {container: {image: i, cmds: [x], secretName: A, serviceAccount: a_b, certificatesMountPath: c}}, y: " +
			"{container: {image: i, cmds: [x], secretName: 1, serviceAccount: true, certificatesMountPath: /}}}",
		"f:1:54: a/x/container/secretName: \"A\" is not the name of an object in the cluster: lower-case letters, digits, " +
			"dashes and dots\nf:1:73: a/x/container/serviceAccount: \"a_b\" is not the name of an object in the cluster: " +
			"lower-case letters, digits, dashes and dots\n" +
			"f:1:101: a/x/container/certificatesMountPath: \"c\" is not the absolute path of a folder\n" +
			"f:1:155: a/y/container/secretName: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:174: a/y/container/serviceAccount: want a string, found a boolean; write \"true\" in quotes\n" +
			"f:1:203: a/y/container/certificatesMountPath: \"/\" is not the absolute path of a folder", true},
	"docker": {
		"a: {x: {docker: {file: Dockerfile, tag: \"a, b,\", context: sub, destination: \"reg:5000/g/n\", name: n, group: g, " +
			"registry: r, secret: \"\", append-cert: true, push: false, args: [A=b, \"C=\"], secretName: s, secretArgs: [A=b]}}}", "", false},
	"docker alone": {"a: {x: {docker: {file: f, tag: t}}}", "", false},
	"docker without fields": {"a: {x: {docker: {}}}",
		"f:1:9: a/x/docker: the field \"file\" is missing\nf:1:9: a/x/docker: the field \"tag\" is missing", true},
	"docker no mapping": {"a: {x: {docker: f}, y: {docker: }}",
		"f:1:17: a/x/docker: want a mapping, found a string\nf:1:33: a/y/docker: want a mapping, found nothing", true},
	"docker kinds": {
		"a: {x: {docker: {file: 1, tag: 1.10, context: [], destination: {}, secret: true, append-cert: \"true\", push: " +
			"\"no\", args: a, secretName: 1, secretArgs: x}}}",
		"f:1:24: a/x/docker/file: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:32: a/x/docker/tag: want a string, found a number; write \"1.10\" in quotes\n" +
			"f:1:47: a/x/docker/context: want a string, found a list\n" +
			"f:1:64: a/x/docker/destination: want a string, found a mapping\n" +
			"f:1:76: a/x/docker/secret: want a string, found a boolean; write \"true\" in quotes\n" +
			"f:1:95: a/x/docker/append-cert: want a boolean, found a string\n" +
			"f:1:109: a/x/docker/push: want a boolean, found a string\n" +
			"f:1:121: a/x/docker/args: want a list of strings, found a string\nf:1:136: a/x/docker/secretName: want a string, " +
			"found a number; write \"1\" in quotes\nf:1:151: a/x/docker/secretArgs: want a list of strings, found a string", true},
	"docker field unknown": {"a: {x: {docker: {file: f, tag: t, dockerfile: g, tags: x}}}",
		"f:1:35: warning: a/x/docker: unknown key \"dockerfile\"\n" +
			"f:1:50: warning: a/x/docker: unknown key \"tags\" (did you mean \"tag\"?)", true},
	"docker tags": {
		"a: {x: {docker: {file: f, tag: \",\"}}, y: {docker: {file: f, tag: \"a,-b,c d\"}}, z: {docker: {file: " +
			"f, tag: \"\"}}}",
		"f:1:32: a/x/docker/tag: \",\" has no tag\n" +
			"f:1:66: a/y/docker/tag: \"-b\" is not a valid tag; want at most 128 letters, digits, dots, dashes and underscores\n" +
			"f:1:66: a/y/docker/tag: \"c d\" is not a valid tag; want at most 128 letters, digits, dots, dashes and underscores\n" +
			"f:1:107: a/z/docker/tag: \"tag\" must not be empty", true},
	"docker paths": {
		"a: {x: {docker: {file: ../Dockerfile, tag: t, context: /root}}, y: {docker: {file: a/../../f, tag: t, context: " +
			"\"https://h/x\"}}}",
		"f:1:24: a/x/docker/file: \"../Dockerfile\" leaves the workspace\n" +
			"f:1:56: a/x/docker/context: \"/root\" leaves the workspace\n" +
			"f:1:84: a/y/docker/file: \"a/../../f\" leaves the workspace\nf:1:112: a/y/docker/context: \"https://h/x\" leaves the workspace", false},
	"docker destination": {
		"a: {x: {docker: {file: f, tag: t, destination: \"reg/Shop/x\"}}, y: {docker: {file: f, tag: t, destination: shop}}, " +
			"z: {docker: {file: f, tag: t, destination: \"reg/a b\"}}}",
		"f:1:107: a/y/docker/destination: the image's name \"shop\" is not valid; want a registry and a path of lower-case " +
			"letters, digits, dots, dashes and underscores\nf:1:158: a/z/docker/destination: the image's name \"reg/a b\" is not " +
			"valid; want a registry and a path of lower-case letters, digits, dots, dashes and underscores", false},
	"docker args": {"a: {x: {docker: {file: f, tag: t, args: [A, =b, A B=c]}}}",
		"f:1:42: a/x/docker/args[0]: \"A\" is not a build argument; want NAME=value\nf:1:45: a/x/docker/args[1]: \"=b\" is " +
			"not a build argument; want NAME=value\nf:1:49: a/x/docker/args[2]: \"A B=c\" is not a build argument; want NAME=value", false},
	"docker secrets alone": {
		"a: {x: {docker: {file: f, tag: t, secretName: s}}, y: {docker: {file: f, tag: t, secretArgs: [A=b]}}}",
		"f:1:47: a/x/docker/secretName: secretName has no meaning without secretArgs\n" +
			"f:1:94: a/y/docker/secretArgs: secretArgs has no meaning without secretName", true},
	"docker secret args": {
		"a: {x: {docker: {file: f, tag: t, secretName: s, secretArgs: [A, A=, =a, A-B=c]}}}",
		"f:1:62: a/x/docker/secretArgs: \"=a\" is not a build argument that is a secret; want NAME=key\n" +
			"f:1:62: a/x/docker/secretArgs: \"A\" is not a build argument that is a secret; want NAME=key\n" +
			"f:1:62: a/x/docker/secretArgs: \"A-B=c\" is not a build argument that is a secret; want NAME=key\n" +
			"f:1:62: a/x/docker/secretArgs: \"A=\" is not a build argument that is a secret; want NAME=key", false},
	"docker secret names": {
		"a: {x: {docker: {file: f, tag: t, secret: A_B, secretName: A/B, secretArgs: [A=b]}}}",
		"f:1:43: a/x/docker/secret: \"A_B\" is not the name of an object in the cluster: lower-case letters, digits, dashes " +
			"and dots\nf:1:60: a/x/docker/secretName: \"A/B\" is not the name of an object in the cluster: lower-case letters, " +
			"digits, dashes and dots", false},
	"helm": {
		"a: {x: {helm: {chart: c, name: n, namespace: ns, repo: \"https://charts\", set: {a.b: 1, c: \"x\", d: true}, files: " +
			"[a.yml, b/c.yml], chartVersion: \"1.2\", helmVersion: v3.8.1, cluster: c, secret: s}}}", "", false},
	"helm without fields": {"a: {x: {helm: {}}}",
		"f:1:9: a/x/helm: the field \"chart\" is missing\nf:1:9: a/x/helm: the field \"name\" is missing\n" +
			"f:1:9: a/x/helm: the field \"namespace\" is missing", true},
	"helm kinds": {
		"a: {x: {helm: {chart: 1, name: true, namespace: null, repo: 1, set: [a], files: a, chartVersion: 1.10, helmVersion: " +
			"3, cluster: 1, secret: 1}}}",
		"f:1:23: a/x/helm/chart: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:32: a/x/helm/name: want a string, found a boolean; write \"true\" in quotes\n" +
			"f:1:49: a/x/helm/namespace: want a string, found nothing\n" +
			"f:1:61: a/x/helm/repo: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:69: a/x/helm/set: want a mapping of scalars, found a list\n" +
			"f:1:81: a/x/helm/files: want a list of strings, found a string\n" +
			"f:1:98: a/x/helm/chartVersion: want a string, found a number; write \"1.10\" in quotes\n" +
			"f:1:117: a/x/helm/helmVersion: want a string, found a number; write \"3\" in quotes\n" +
			"f:1:129: a/x/helm/cluster: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:140: a/x/helm/secret: want a string, found a number; write \"1\" in quotes", true},
	"helm set": {
		"a: {x: {helm: {chart: c, name: n, namespace: ns, helmVersion: v3, set: {a: [b], \"c=d\": 1, \"e,f\": 1}}}}",
		"f:1:76: a/x/helm/set/a: want a scalar, found a list\nf:1:88: a/x/helm/set/c=d: \"c=d\" is not the path of a value; " +
			"want one such as image.tag\nf:1:98: a/x/helm/set/e,f: \"e,f\" is not the path of a value; want one such as image.tag", true},
	"helm names": {
		"a: {x: {helm: {chart: -c, name: -n, namespace: A, repo: -r, chartVersion: --x, helmVersion: v 3, cluster: " +
			"A, secret: A}}}",
		"f:1:23: a/x/helm/chart: \"-c\" is not the name or the path of a chart\n" +
			"f:1:33: a/x/helm/name: \"-n\" is not the name of a release: at most 53 letters, digits, dashes, dots and " +
			"underscores\nf:1:48: a/x/helm/namespace: \"A\" is not the name of a namespace: at most 63 lower-case letters, " +
			"digits and dashes\nf:1:57: a/x/helm/repo: \"-r\" is not the URL of a repository\n" +
			"f:1:75: a/x/helm/chartVersion: \"--x\" is not a version, or a range of versions\n" +
			"f:1:93: a/x/helm/helmVersion: \"v 3\" is not a version\n" +
			"f:1:107: a/x/helm/cluster: \"A\" is not the name of an object in the cluster: lower-case letters, digits, dashes " +
			"and dots\nf:1:118: a/x/helm/secret: \"A\" is not the name of an object in the cluster: lower-case letters, digits, " +
			"dashes and dots", false},
	"helm paths": {
		"a: {x: {helm: {chart: ../c, name: n, namespace: ns, helmVersion: v3, files: [../a, \"a,b\", " +
			"\"https://h/v.yml\", \"\"]}}}",
		"f:1:23: a/x/helm/chart: \"../c\" leaves the workspace\nf:1:78: a/x/helm/files[0]: \"../a\" leaves the workspace\n" +
			"f:1:84: a/x/helm/files[1]: the path \"a,b\" has a comma or a quote, which the tool does not take\n" +
			"f:1:91: a/x/helm/files[2]: \"https://h/v.yml\" leaves the workspace\nf:1:110: a/x/helm/files[3]: the path is empty", false},
	"helm-package": {
		"a: {x: {helm-package: {}}, y: {helm-package: {version: 1.0.0, chart-path: c, destination: \"oci://h/x\", secret: s}}}", "", false},
	"helm-package kinds": {
		"a: {x: {helm-package: {version: 1.0, chart-path: 1, destination: [], secret: 1}}}",
		"f:1:33: a/x/helm-package/version: want a string, found a number; write \"1.0\" in quotes\n" +
			"f:1:50: a/x/helm-package/chart-path: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:66: a/x/helm-package/destination: want a string, found a list\n" +
			"f:1:78: a/x/helm-package/secret: want a string, found a number; write \"1\" in quotes", true},
	"helm-package values": {
		"a: {x: {helm-package: {version: -v, chart-path: ../c, destination: -d, secret: A}}}",
		"f:1:33: a/x/helm-package/version: \"-v\" is not a version\n" +
			"f:1:49: a/x/helm-package/chart-path: \"../c\" leaves the workspace\n" +
			"f:1:68: a/x/helm-package/destination: \"-d\" is not the URL of a repository\nf:1:80: a/x/helm-package/secret: \"A\" " +
			"is not the name of an object in the cluster: lower-case letters, digits, dashes and dots", false},
	"kubectl": {
		"a: {x: {kubectl: {file: f, namespace: ns, action: delete, force: true, cluster: c}}, y: {kubectl: {files: [f, " +
			"d], file: g}}}", "", false},
	"kubectl without files": {"a: {x: {kubectl: {}}, y: {kubectl: {files: []}}, z: {kubectl: {file: \"\"}}}",
		"f:1:9: a/x/kubectl: the field \"file\" or \"files\" is missing\n" +
			"f:1:44: a/y/kubectl/files: \"files\" must not be empty\nf:1:70: a/z/kubectl/file: \"file\" must not be empty", true},
	"kubectl kinds": {
		"a: {x: {kubectl: {file: 1, namespace: 1, action: true, force: \"yes\", cluster: 1}}, y: {kubectl: {files: f}}}",
		"f:1:25: a/x/kubectl/file: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:39: a/x/kubectl/namespace: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:50: a/x/kubectl/action: want a string, found a boolean; write \"true\" in quotes\n" +
			"f:1:63: a/x/kubectl/force: want a boolean, found a string\nf:1:79: a/x/kubectl/cluster: want a string, found a " +
			"number; write \"1\" in quotes\nf:1:105: a/y/kubectl/files: want a list of strings, found a string", true},
	"kubectl values": {
		"a: {x: {kubectl: {file: ../f, namespace: -n, action: --x, cluster: A}}, y: {kubectl: {files: [/f, \"a,b\"]}}}",
		"f:1:25: a/x/kubectl/file: \"../f\" leaves the workspace\n" +
			"f:1:42: a/x/kubectl/namespace: \"-n\" is not the name of a namespace: at most 63 lower-case letters, digits and " +
			"dashes\nf:1:54: a/x/kubectl/action: \"--x\" is not a command of kubectl, such as apply\n" +
			"f:1:68: a/x/kubectl/cluster: \"A\" is not the name of an object in the cluster: lower-case letters, digits, dashes " +
			"and dots\nf:1:95: a/y/kubectl/files[0]: \"/f\" leaves the workspace\n" +
			"f:1:99: a/y/kubectl/files[1]: the path \"a,b\" has a comma or a quote, which the tool does not take", false},
	"nuget-package": {
		"a: {x: {nuget-package: {version: \"1.0\", project-path: p, repo: \"https://n\", skip-duplicate: true, " +
			"certificatesMountPath: /c}}}", "", false},
	"nuget-package without fields": {"a: {x: {nuget-package: {}}}",
		"f:1:9: a/x/nuget-package: the field \"project-path\" is missing\n" +
			"f:1:9: a/x/nuget-package: the field \"repo\" is missing\nf:1:9: a/x/nuget-package: the field \"version\" is missing", true},
	"nuget-package kinds": {
		"a: {x: {nuget-package: {version: 1.0, project-path: 1, repo: 1, skip-duplicate: \"true\", " +
			"certificatesMountPath: 1}}}",
		"f:1:34: a/x/nuget-package/version: want a string, found a number; write \"1.0\" in quotes\n" +
			"f:1:53: a/x/nuget-package/project-path: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:62: a/x/nuget-package/repo: want a string, found a number; write \"1\" in quotes\n" +
			"f:1:81: a/x/nuget-package/skip-duplicate: want a boolean, found a string\n" +
			"f:1:112: a/x/nuget-package/certificatesMountPath: want a string, found a number; write \"1\" in quotes", true},
	"nuget-package values": {
		"a: {x: {nuget-package: {version: \"1;a=b\", project-path: ../p, repo: -r, certificatesMountPath: ../c}}}",
		"f:1:34: a/x/nuget-package/version: \"1;a=b\" is not a version\n" +
			"f:1:57: a/x/nuget-package/project-path: \"../p\" leaves the workspace\nf:1:69: a/x/nuget-package/repo: \"-r\" is " +
			"not the URL of a registry\nf:1:96: a/x/nuget-package/certificatesMountPath: \"../c\" is not the absolute path of a folder", false},
	"every value from variables": {
		"a: {x: {docker: {file: \"${v}\", tag: \"${v}\", context: \"${v}\", destination: \"${v}\", append-cert: \"${v}\", " +
			"push: \"${v}\", args: [\"${v}\"], secretName: \"${v}\", secretArgs: [\"${v}\"]}}, y: {helm: {chart: \"${v}\", name: " +
			"\"${v}\", namespace: \"${v}\", repo: \"${v}\", set: {\"${v}\": \"${v}\"}, files: [\"${v}\"], chartVersion: " +
			"\"${v}\", helmVersion: \"${v}\", cluster: \"${v}\", secret: \"${v}\"}}, z: {kubectl: {files: [\"${v}\"], namespace: " +
			"\"${v}\", action: \"${v}\", force: \"${v}\"}, resources: {limits: {cpu: \"${v}\"}}, services: [{name: \"${v}\", " +
			"image: \"${v}\", env: {\"${v}\": \"${v}\"}, ports: [\"${v}\"], ready: \"${v}\"}]}}", "", false},
	"variables are taken": {
		"test: {a: {timeout: \"${t}\", artifacts: [\"${x}\"], container: {image: \"${i}\", cmds: [\"${c}\"], os: \"${o}\"}}}", "", false},
}

func TestParseReportsEveryFaultWithItsPlace(t *testing.T) {
	t.Parallel()
	for name, test := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, problems := build.Parse(tree(t, test.file))
			if diff := cmp.Diff(test.want, problems.Error()); diff != "" {
				t.Error(diff)
			}
			for _, p := range problems {
				if p.Code == "" || p.Line == 0 {
					t.Errorf("without code or place: %+v", p)
				}
			}
		})
	}
}

// TestCodesOfFaults: programs distinguish faults by their code.
func TestCodesOfFaults(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"inputs: [{name: a}]":                                        "input-type",
		"inputs: [{name: a, type: x}]":                               "input-type",
		"inputs: [{type: string}]":                                   "field-missing",
		"inputs: [{name: a, type: number, default: x}]":              "input-default",
		"inputs: [{name: a, type: choice, values: [x]}]":             "choice-default",
		"inputs: [{name: a, type: choice, values: [x], default: y}]": "choice-default",
		"inputs: [{name: a, type: choice, default: y}]":              "values-missing",
		"inputs: [{name: a, type: choice, values: [], default: y}]":  "values-missing",
		"inputs: [{name: a, type: string}, {name: a, type: string}]": "input-repeated",
		"t: {a: {container: {image: i, cmds: [x], os: beos}}}":       "os-invalid",

		"t: {a: {container: {image: i, cmds: [x]}, resources: {limits: {cpu: x}}}}":               "quantity-invalid",
		"t: {a: {container: {image: i, cmds: [x]}, services: [{name: A, image: i}]}}":             "name-invalid",
		"t: {a: {container: {image: i, cmds: [x]}, services: [{name: a, image: i, ports: [0]}]}}": "port-invalid",
		"t: {a: {container: {image: i, cmds: [x], certificatesMountPath: x}}}":                    "path-invalid",
		"t: {a: {docker: {file: f, tag: \",\"}}}":                                                 "tag-none",
		"t: {a: {docker: {file: f, tag: \"-\"}}}":                                                 "tag-invalid",
		"t: {a: {docker: {file: ../f, tag: t}}}":                                                  "path-outside",
		"t: {a: {docker: {file: f, tag: t, destination: f}}}":                                     "destination-invalid",
		"t: {a: {docker: {file: f, tag: t, args: [a]}}}":                                          "argument-invalid",
		"t: {a: {docker: {file: f, tag: t, secretName: s}}}":                                      "secret-args",
		"t: {a: {docker: {file: f, tag: t, secretArgs: [A=b]}}}":                                  "secret-args",
		"t: {a: {docker: {file: f, tag: t, secretName: s, secretArgs: [A]}}}":                     "secret-args",
		"t: {a: {helm: {chart: c, name: n, namespace: n, set: {\"a=\": 1}}}}":                     "set-invalid",
		"t: {a: {helm: {chart: c, name: n, namespace: n, repo: -x}}}":                             "url-invalid",
		"t: {a: {helm-package: {version: -x}}}":                                                   "version-invalid",
		"t: {a: {kubectl: {}}}":                                                                   "field-missing",
		"t: {a: {kubectl: {file: f, action: -x}}}":                                                "action-invalid",
		"t: {a: {kubectl: {file: f}, docker: {file: f, tag: t}}}":                                 "step-type-many",
	} {
		_, problems := build.Parse(tree(t, file))
		if len(problems) != 1 || problems[0].Code != want {
			t.Errorf("%s: %+v, want the code %s", file, problems, want)
		}
	}
}

func TestParseWarnsOfTypesFromVariables(t *testing.T) {
	t.Parallel()
	_, problems := build.Parse(tree(t, "test: {a: {\"${type}\": {}}}"))
	if diff := cmp.Diff("f:1:12: warning: test/a: the variable in \"${type}\" decides the type of the step", problems.Error()); diff != "" {
		t.Error(diff)
	}
}

// TestFieldsMayBeNamedByVariables: a variable's value is judged once it is replaced.
func TestFieldsMayBeNamedByVariables(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, "s: {a: {container: {\"${f}\": i, cmds: [x]}}, b: {kubectl: {\"${g}\": x}}}"))
	want := "f:1:21: warning: s/a/container: the variable in \"${f}\" decides the name of a field\n" +
		"f:1:59: warning: s/b/kubectl: the variable in \"${g}\" decides the name of a field"
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Fatal(diff)
	}
	for name, want := range map[string]string{"image": "",
		"imag": "f:1:9: s/a/container: the field \"image\" is missing\n" +
			"f:1:21: warning: s/a/container: unknown key \"imag\" (did you mean \"image\"?)"} {
		plan, problems := build.MakePlan(file,
			build.Choice{Variables: build.Variables{build.Texts("test", map[string]string{"f": name, "g": "file"})}})
		if diff := cmp.Diff(want, problems.Error()); diff != "" {
			t.Error(diff)
		} else if want == "" && (plan.Steps[0].Spec.Image != "i" || plan.Steps[1].Spec.Files[0] != "x") {
			t.Errorf("%+v", plan.Steps)
		}
	}
}

// TestKeysWithFaultsAreNotRead: also when there are so many faults that further ones are only counted.
func TestKeysWithFaultsAreNotRead(t *testing.T) {
	t.Parallel()
	const many = 200
	for _, key := range []string{
		"retry: {}", "retry: 1", "cache: [{key: a}]", "cache: [{paths: [a]}]", "cache: [1]", "needs: 1", "artifacts: [{name: x}]", "artifacts: 1",
		"matrix: 1", "secrets: 1", "timeout: []", "test-results: 1", "resources: 1", "services: [1]",
	} {
		file := "a:\n" + strings.Repeat("  b: 1\n", many) + "  c: {container: {image: x, cmds: [y]}, " + key + "}\n"
		for i := range many {
			file = strings.Replace(file, "  b:", fmt.Sprintf("  b%d:", i), 1)
		}
		if _, problems := build.Parse(tree(t, file)); problems.Count() <= many {
			t.Errorf("%s: %d faults, want more than %d", key, problems.Count(), many)
		}
	}
}

func TestParseWarnsOfOlderSpelling(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, "test: {run-if: FAIL, a: "+ok+"}"))
	if diff := cmp.Diff("f:1:8: warning: test/run-if: run-if is now runs-if", problems.Error()); diff != "" {
		t.Error(diff)
	}
	if got := file.Stages[0].RunsIf; got != build.Fail {
		t.Errorf("runs if %s, want fail in any case of letters", got)
	}
}

// TestUnknownFieldsOfStepTypesAreWarnings: a file with a field that older programs ignored is still a file.
func TestUnknownFieldsOfStepTypesAreWarnings(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, "s: {a: {container: {image: i, cmds: [x], imagePull: y}, retry: {attempts: 2}}}"))
	if problems.Err() != nil || len(problems) != 1 || problems[0].Code != "field-unknown" {
		t.Fatalf("%v, want one warning", problems)
	}
	if build.Strict(problems).Err() == nil || !problems[0].Warning {
		t.Error("strict lets the field pass, or changes its argument")
	}
	plan, problems := build.MakePlan(file, build.Choice{})
	if problems.Err() != nil || plan.Steps[0].Spec.Image != "i" || plan.Steps[0].Retry == nil {
		t.Errorf("%+v, %v", plan, problems)
	}
	if _, problems := build.Parse(tree(t, "s: {a: {"+ok[1:len(ok)-1]+", retry: {attempts: 2, of: [x]}}}")); problems.Err() == nil {
		t.Error("an unknown key of what Waybill has added passes")
	}
}
