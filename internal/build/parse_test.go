package build_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
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
	"sound":                             {"test: {unit: " + ok + "}", "", false},
	"every key":                         {"environments: {e: {a: 1, b: null}, f: }\ntest:\n  environments: [e]\n  runs-if: always\n  fail-fast: false\n  unit:\n    timeout: 10m\n    artifacts: [a, {path: \"b/**\", name: n, archive: true, when: always}]\n    container: {image: i, cmds: [x], os: linux, shell: bash}", "", false},
	"several at once":                   {"test:\n  unit:\n    container: {imag: i, cmds: x}\nother: 5\n", "f:3:5: test/unit/container: the field \"image\" is missing\nf:3:17: test/unit/container: unknown key \"imag\" (did you mean \"image\"?)\nf:3:32: test/unit/container/cmds: want a list of strings, found a string\nf:4:8: other: want a mapping of steps, found a number", true},
	"inputs none":                       {"inputs: []" + "\ntest: {unit: " + ok + "}", "", false},
	"inputs sound":                      {"inputs: [{name: a, type: string}, {name: b, type: password, default: \"\"}, {name: c, type: number, default: 1.50}, {name: d, type: choice, values: [x, \"1.10\"], default: x}, {name: e, type: string, default: \"${a}\"}]" + "\ntest: {unit: " + ok + "}", "", false},
	"inputs a mapping":                  {"inputs: {a: b}" + "\ntest: {unit: " + ok + "}", "f:1:9: inputs: want a list of inputs, found a mapping", true},
	"input a string":                    {"inputs: [a]" + "\ntest: {unit: " + ok + "}", "f:1:10: inputs/0: want a mapping, found a string", true},
	"input without name and type":       {"inputs: [{}]" + "\ntest: {unit: " + ok + "}", "f:1:10: inputs/0: the field \"name\" is missing\nf:1:10: inputs/0: the field \"type\" is missing", true},
	"input name empty":                  {"inputs: [{name: \"\", type: string}]" + "\ntest: {unit: " + ok + "}", "f:1:17: inputs/0/name: \"name\" must not be empty", true},
	"input type unknown":                {"inputs: [{name: a, type: chioce, values: [x], default: 1}]" + "\ntest: {unit: " + ok + "}", "f:1:26: inputs/0/type: \"chioce\" is none of string, password, number, choice (did you mean \"choice\"?)", true},
	"input type from a variable":        {"inputs: [{name: a, type: \"${t}\"}]" + "\ntest: {unit: " + ok + "}", "f:1:26: inputs/0/type: \"${t}\" is none of string, password, number, choice", true},
	"input defaults of other kinds":     {"inputs: [{name: a, type: string, default: 1.10}, {name: b, type: password, default: true}, {name: c, type: number, default: \"1\"}, {name: d, type: number, default: \"${c}\"}]" + "\ntest: {unit: " + ok + "}", "f:1:43: inputs/0/default: want a string, found a number; write \"1.10\" in quotes\nf:1:85: inputs/1/default: want a string, found a boolean; write \"true\" in quotes\nf:1:125: inputs/2/default: want a number, found a string\nf:1:164: inputs/3/default: want a number, found a string", true},
	"input default nothing":             {"inputs: [{name: a, type: string, default: }]" + "\ntest: {unit: " + ok + "}", "f:1:43: inputs/0/default: want a string, found nothing", true},
	"choice without values and default": {"inputs: [{name: a, type: choice}]" + "\ntest: {unit: " + ok + "}", "f:1:10: inputs/0: the field \"default\" is missing\nf:1:10: inputs/0: the field \"values\" is missing", true},
	"choice without a value":            {"inputs: [{name: a, type: choice, values: [], default: x}]" + "\ntest: {unit: " + ok + "}", "f:1:42: inputs/0/values: \"values\" must not be empty", true},
	"choice default not a value":        {"inputs: [{name: a, type: choice, values: [info, debug], default: inof}]" + "\ntest: {unit: " + ok + "}", "f:1:66: inputs/0/default: \"inof\" is none of info, debug (did you mean \"info\"?)", false},
	"values of a string":                {"inputs: [{name: a, type: string, values: [x]}]" + "\ntest: {unit: " + ok + "}", "f:1:34: inputs/0: unknown key \"values\"", true},
	"input repeated":                    {"inputs: [{name: a, type: string}, {name: a, type: chioce}]" + "\ntest: {unit: " + ok + "}", "f:1:42: inputs/1: the input \"a\" is already at 1:17\nf:1:51: inputs/1/type: \"chioce\" is none of string, password, number, choice (did you mean \"choice\"?)", true},
	"environments a list":               {"environments: [a]\n", "f:1:15: environments: want a mapping of names to variables, found a list", true},
	"environment a string":              {"environments: {a: b}\n", "f:1:19: environments/a: want a mapping of variables, found a string", true},
	"variable a list":                   {"environments: {a: {b: [c]}}\n", "f:1:23: environments/a/b: want a scalar, found a list", true},
	"stage a scalar":                    {"test: x\n", "f:1:7: test: want a mapping of steps, found a string", true},
	"stage misspelt reserved":           {"Environments: 5\n", "f:1:15: Environments: want a mapping of steps, found a number (did you mean \"environments\"?)", true},
	"stage empty":                       {"test: {}\n", "f:1:7: test: the stage has no steps", true},
	"stage absent":                      {"test:\nother: {a: " + ok + "}", "f:1:6: test: want a mapping of steps, found nothing", true},
	"stage with a key only":             {"test: {runs-if: always}", "", false},
	"environment unknown":               {"environments: {stage: {}}\ntest:\n  environments: [stag]\n  a: " + ok, "f:3:18: test/environments[0]: environment \"stag\" not found (did you mean \"stage\"?)", false},
	"environment empty":                 {"environments: {stage: {}}\ntest:\n  environments: [\"\"]\n  a: " + ok, "f:3:18: test/environments[0]: the name of an environment must not be empty", false},
	"environments no list":              {"test:\n  environments: stage\n  a: " + ok, "f:2:17: test/environments: want a list of strings, found a string", true},
	"environment a number":              {"test:\n  environments: [1]\n  a: " + ok, "f:2:18: test/environments[0]: want a string, found a number", true},
	"runs-if unknown":                   {"test:\n  runs-if: maybe\n  a: " + ok, "f:2:12: test/runs-if: \"maybe\" is none of success, fail, always", true},
	"runs-if a boolean":                 {"test:\n  runs-if: true\n  a: " + ok, "f:2:12: test/runs-if: want a string, found a boolean", true},
	"fail-fast a string":                {"test:\n  fail-fast: \"no\"\n  a: " + ok, "f:2:14: test/fail-fast: want a boolean, found a string", true},
	"run-if and fail-fast are steps":    {"test:\n  run-if: " + ok + "\n  fail-fast: " + ok, "", false},
	"step a scalar":                     {"test: {a: x}", "f:1:11: test/a: want a step, a mapping with a step type such as container, found a string", true},
	"step without a type":               {"test: {a: {timeout: 1m}}", "f:1:11: test/a: the step has no type; want one of container, docker, helm, helm-package, kubectl, nuget-package", true},
	"step type unknown":                 {"test: {a: {contaner: {}}}", "f:1:12: test/a: \"contaner\" is neither a step type nor a key of a step (did you mean \"container\"?)", true},
	"two types, insides checked":        {"test:\n  a:\n    container: {image: i}\n    helm: {}\n", "f:3:5: test/a/container: the field \"cmds\" is missing\nf:3:5: test/a: the step has 2 types, container and helm; want one\nf:4:5: test/a/helm: the field \"chart\" is missing\nf:4:5: test/a/helm: the field \"name\" is missing\nf:4:5: test/a/helm: the field \"namespace\" is missing", true},
	"type a list":                       {"test: {a: {container: []}}", "f:1:23: test/a/container: want a mapping, found a list", true},
	"image a number":                    {"test: {a: {container: {image: 1.10, cmds: [x]}}}", "f:1:31: test/a/container/image: want a string, found a number; write \"1.10\" in quotes", true},
	"image nothing":                     {"test: {a: {container: {image: , cmds: [x]}}}", "f:1:31: test/a/container/image: want a string, found nothing", true},
	"image empty":                       {"test: {a: {container: {image: \"\", cmds: [x]}}}", "f:1:31: test/a/container/image: \"image\" must not be empty", true},
	"cmds empty":                        {"test: {a: {container: {image: i, cmds: []}}}", "f:1:40: test/a/container/cmds: \"cmds\" must not be empty", true},
	"command a boolean":                 {"test: {a: {container: {image: i, cmds: [x, true]}}}", "f:1:44: test/a/container/cmds[1]: want a string, found a boolean; write \"true\" in quotes", true},
	"os unknown":                        {"test: {a: {container: {image: i, cmds: [x], os: linus}}}", "f:1:49: test/a/container/os: \"linus\" is none of linux, windows (did you mean \"linux\"?)", true},
	"timeout not a duration":            {"test: {a: {timeout: 10x, container: {image: i, cmds: [x]}}}", "f:1:21: test/a/timeout: \"10x\" is not a valid duration; write one such as 90s, 10m or 1h30m", false},
	"timeout a number":                  {"test: {a: {timeout: 10, container: {image: i, cmds: [x]}}}", "f:1:21: test/a/timeout: want a duration, found a number; give it a unit, such as 10s", true},
	"timeout not positive":              {"test: {a: {timeout: -1m, container: {image: i, cmds: [x]}}}", "f:1:21: test/a/timeout: \"-1m\" is not a valid duration; write one such as 90s, 10m or 1h30m", false},
	"artifacts a string":                {"test: {a: {artifacts: x, container: {image: i, cmds: [x]}}}", "f:1:23: test/a/artifacts: want a list of strings or mappings, found a string", true},
	"artifact leaves":                   {"test: {a: {artifacts: [../x, /y, a/../../z], container: {image: i, cmds: [x]}}}", "f:1:24: test/a/artifacts[0]: \"../x\" leaves the workspace\nf:1:30: test/a/artifacts[1]: \"/y\" leaves the workspace\nf:1:34: test/a/artifacts[2]: \"a/../../z\" leaves the workspace", false},
	"artifact not a glob":               {"test: {a: {artifacts: [\"[x\"], container: {image: i, cmds: [x]}}}", "f:1:24: test/a/artifacts[0]: \"[x\" is not a valid glob: a bracket or a backslash at its end is not closed", false},
	"artifact without a path":           {"test: {a: {artifacts: [{name: x}], container: {image: i, cmds: [x]}}}", "f:1:24: test/a/artifacts[0]: the field \"path\" is missing", true},
	"artifact with a key too many":      {"test: {a: {artifacts: [{path: x, pth: y}], container: {image: i, cmds: [x]}}}", "f:1:34: test/a/artifacts[0]: unknown key \"pth\" (did you mean \"path\"?)", true},
	"artifact when unknown":             {"test: {a: {artifacts: [{path: x, when: never}], container: {image: i, cmds: [x]}}}", "f:1:40: test/a/artifacts[0]/when: \"never\" is none of success, fail, always", true},
	"needs":                             {"a: {x: {needs: [y], container: {image: i, cmds: [x]}}, y: " + ok + "}\nb: {y: {needs: [], container: {image: i, cmds: [x]}}, z: {needs: [y, a/y, x], container: {image: i, cmds: [x]}}}", "", false},
	"need unknown":                      {"a: {build: " + ok + ", x: {needs: [biuld, a/y], container: {image: i, cmds: [x]}}}", "f:1:60: a/x/needs[0]: step \"biuld\" not found (did you mean \"build\"?)\nf:1:67: a/x/needs[1]: step \"a/y\" not found (did you mean \"a/x\"?)", false},
	"need ambiguous":                    {"a: {x: " + ok + "}\nb: {x: " + ok + "}\nc: {y: {needs: [x], container: {image: i, cmds: [x]}}}", "f:3:17: c/y/needs[0]: 2 stages have a step \"x\"; write stage/x", false},
	"need itself":                       {"a: {x: {needs: [x], container: {image: i, cmds: [x]}}}", "f:1:17: a/x/needs: these steps wait for each other: a/x → a/x", false},
	"needs in a circle":                 {"a: {x: {needs: [y], container: {image: i, cmds: [x]}}, y: {needs: [b/z], container: {image: i, cmds: [x]}}}\nb: {z: {needs: [a/x], container: {image: i, cmds: [x]}}}", "f:2:17: b/z/needs: these steps wait for each other: a/x → a/y → b/z → a/x", false},
	"needs no list":                     {"a: {x: {needs: y, container: {image: i, cmds: [x]}}}", "f:1:16: a/x/needs: want a list of strings, found a string", true},
	"retry":                             {"a: {x: {retry: {attempts: 3, on: [timeout, infrastructure], backoff: 1m}, container: {image: i, cmds: [x]}}}", "", false},
	"retry without attempts":            {"a: {x: {retry: {on: [failure]}, container: {image: i, cmds: [x]}}}", "f:1:9: a/x/retry: the field \"attempts\" is missing", true},
	"retry out of range":                {"a: {x: {retry: {attempts: 11}, container: {image: i, cmds: [x]}}, y: {retry: {attempts: 0}, container: {image: i, cmds: [x]}}, z: {retry: {attempts: 1.5}, container: {image: i, cmds: [x]}}}", "f:1:27: a/x/retry/attempts: want a whole number from 1 to 10\nf:1:89: a/y/retry/attempts: want a whole number from 1 to 10\nf:1:150: a/z/retry/attempts: want a whole number from 1 to 10", false},
	"retry on something else":           {"a: {x: {retry: {attempts: 2, on: [failure, luck], backoff: 0s}, container: {image: i, cmds: [x]}}}", "f:1:44: a/x/retry/on[1]: \"luck\" is none of failure, timeout, infrastructure\nf:1:60: a/x/retry/backoff: \"0s\" is not a valid duration; write one such as 90s, 10m or 1h30m", true},
	"matrix":                            {"a: {x: {matrix: {go: [1.25, 1.26], db: [pg, \"${db}\"], exclude: [{go: 1.25, db: pg}]}, container: {image: \"go:${matrix.go}\", cmds: [x]}}, y: {needs: [x], container: {image: i, cmds: [x]}}}", "", false},
	"matrix without an axis":            {"a: {x: {matrix: {exclude: [{go: 1}]}, container: {image: i, cmds: [x]}}}", "f:1:17: a/x/matrix: the matrix has no axis, such as go: [1.25, 1.26]\nf:1:29: a/x/matrix/exclude[0]: the matrix has no axis \"go\"", false},
	"matrix axis without values":        {"a: {x: {matrix: {go: []}, container: {image: i, cmds: [x]}}}", "f:1:22: a/x/matrix/go: the axis \"go\" has no values", false},
	"matrix axis no list":               {"a: {x: {matrix: {go: 1, db: [[pg]], exclude: [1]}, container: {image: i, cmds: [x]}}}", "f:1:22: a/x/matrix/go: want a list, found a number\nf:1:30: a/x/matrix/db[0]: want a scalar, found a list\nf:1:47: a/x/matrix/exclude[0]: want a mapping of axes to values, found a number", false},
	"matrix excludes an axis":           {"a: {x: {matrix: {go: [1], exclude: [{og: 1}, {go: [1]}, {}]}, container: {image: i, cmds: [x]}}}", "f:1:38: a/x/matrix/exclude[0]: the matrix has no axis \"og\"\nf:1:51: a/x/matrix/exclude[1]/go: want a scalar, found a list\nf:1:57: a/x/matrix/exclude[2]: the exclusion names no axis", false},
	"matrix too large":                  {"a: {x: {matrix: {a: [1, 2, 3, 4], b: [1, 2, 3, 4], c: [1, 2, 3, 4], d: [1, 2, 3, 4], e: [1, 2]}, container: {image: i, cmds: [x]}}}", "f:1:17: a/x/matrix: the matrix has more than 256 combinations", false},
	"cache":                             {"a: {x: {cache: [{key: \"go-${hash:go.*}\", paths: [.cache, \"m/**\"], restore: [go-]}], container: {image: i, cmds: [x]}}}", "", false},
	"cache without key and paths":       {"a: {x: {cache: [{}], container: {image: i, cmds: [x]}}}", "f:1:17: a/x/cache[0]: the field \"key\" is missing\nf:1:17: a/x/cache[0]: the field \"paths\" is missing", true},
	"cache that leaves the workspace":   {"a: {x: {cache: [{key: k, paths: [../x, \"[x\"]}], container: {image: i, cmds: [x]}}}", "f:1:34: a/x/cache[0]/paths[0]: \"../x\" leaves the workspace\nf:1:40: a/x/cache[0]/paths[1]: \"[x\" is not a valid glob: a bracket or a backslash at its end is not closed", false},
	"cache key with a bad glob":         {"a: {x: {cache: [{key: \"${hash:[x}\", paths: [x]}], container: {image: i, cmds: [x]}}}", "f:1:23: a/x/cache[0]/key: ${hash:[x}: a bracket or a backslash at its end is not closed", false},
	"secrets":                           {"a: {x: {secrets: [TOKEN, _a1], container: {image: i, cmds: [x]}}}", "", false},
	"secret that is not a name":         {"a: {x: {secrets: [A-B, \"1\"], container: {image: i, cmds: [x]}}}", "f:1:19: a/x/secrets[0]: \"A-B\" cannot be the name of an environment variable\nf:1:24: a/x/secrets[1]: \"1\" cannot be the name of an environment variable", false},
	"variables are taken":               {"test: {a: {timeout: \"${t}\", artifacts: [\"${x}\"], container: {image: \"${i}\", cmds: \"${c}\", os: \"${o}\"}}}", "", false},
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

// TestStepsAreBounded: a matrix of a large step, and many steps, are one fault each.
func TestStepsAreBounded(t *testing.T) {
	t.Parallel()
	axis := "[" + strings.Repeat("1, ", 255) + "2]"
	for want, file := range map[string]string{
		"f:1:9: a/x/matrix: the steps of the file with a matrix come to more than 200000 values": "a: {x: {matrix: {n: " + axis + "}, container: {image: i, cmds: [" + strings.Repeat("x, ", 1000) + "]}}}",
		"the file comes to more than 2000 steps":                                                 "a: {" + strings.Repeat("n: {matrix: {n: [1]}, container: {image: i, cmds: [x]}}, ", 2001) + "}",
	} {
		if strings.Contains(want, "2000 steps") {
			for i := range 2001 {
				file = strings.Replace(file, "n: {m", fmt.Sprintf("s%d: {m", i), 1)
			}
		}
		parsed, problems := build.Parse(tree(t, file))
		if problems.Err() == nil {
			_, problems = build.MakePlan(parsed, build.Choice{})
		}
		if !strings.HasSuffix(problems.Error(), want) || len(problems) != 1 {
			t.Errorf("%.200s; want %s", problems.Error(), want)
		}
	}
}

// TestTextsAreBoundedTogether: many texts that are each within their bound are refused where they are too many.
func TestTextsAreBoundedTogether(t *testing.T) {
	t.Parallel()
	parsed, problems := build.Parse(tree(t, "a: {x: {container: {image: i, cmds: [\n"+strings.Repeat("\"${v}${v}${v}${v}\",\n", 20)+"]}}}"))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	_, problems = build.MakePlan(parsed, build.Choice{Variables: build.Variables{build.Texts("test", map[string]string{"v": strings.Repeat("x", 1<<20)})}})
	if diff := cmp.Diff("f:9:1: a/x/container/cmds[7]: up to here the variables of the file grow to more than 33554432 bytes", problems.Error()); diff != "" {
		t.Error(diff)
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

// schemaOf returns the JSON Schema of the format.
func schemaOf(t *testing.T) (schema any) {
	t.Helper()
	text, err := build.Schema()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestSchemaAgreesWithTheParser(t *testing.T) {
	t.Parallel()
	schema := schemaOf(t)
	for name, test := range faults {
		if strings.Contains(test.file, "${") {
			continue // the schema cannot check the value of a variable
		}
		err := check(schema, plain(tree(t, test.file)), "")
		switch {
		case test.schema && err == "":
			t.Errorf("%s: the parser refuses the file and the schema takes it", name)
		case !test.schema && err != "":
			t.Errorf("%s: the schema refuses the file: %s", name, err)
		}
	}
}

// plain returns a document as encoding/json would decode it.
func plain(n *document.Node) any {
	switch n.Kind {
	case document.Map:
		m := map[string]any{}
		for _, f := range n.Fields {
			m[f.Key] = plain(f.Value)
		}
		return m
	case document.List:
		l := []any{}
		for _, item := range n.Items {
			l = append(l, plain(item))
		}
		return l
	case document.Bool:
		return strings.EqualFold(n.Text, "true")
	case document.Int, document.Float:
		return json.Number(n.Text)
	case document.Null:
		return nil
	}
	return n.Text
}

// check returns the part of JSON Schema that Schema uses; "" when the value fits.
func check(schema, value any, at string) string {
	if allowed, ok := schema.(bool); ok {
		if !allowed {
			return at + ": not allowed"
		}
		return ""
	}
	s := schema.(map[string]any)
	if types, ok := s["type"]; ok && !hasType(types, value) {
		return at + ": type"
	}
	if enum, ok := s["enum"].([]any); ok && !contains(enum, value) {
		return at + ": enum"
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if some, ok := s[word].([]any); ok {
			fits := 0
			for _, one := range some {
				if check(one, value, at) == "" {
					fits++
				}
			}
			if fits == 0 || word == "oneOf" && fits > 1 {
				return at + ": " + word
			}
		}
	}
	switch v := value.(type) {
	case string:
		if least, ok := s["minLength"].(float64); ok && len(v) < int(least) {
			return at + ": minLength"
		}
	case []any:
		if least, ok := s["minItems"].(float64); ok && len(v) < int(least) {
			return at + ": minItems"
		}
		for _, item := range v {
			if items, ok := s["items"]; ok {
				if err := check(items, item, at+"[]"); err != "" {
					return err
				}
			}
		}
	case map[string]any:
		return checkObject(s, v, at)
	}
	return ""
}

func checkObject(s map[string]any, v map[string]any, at string) string {
	if least, ok := s["minProperties"].(float64); ok && len(v) < int(least) {
		return at + ": minProperties"
	}
	if required, ok := s["required"].([]any); ok {
		for _, key := range required {
			if _, there := v[key.(string)]; !there {
				return at + ": required " + key.(string)
			}
		}
	}
	properties, _ := s["properties"].(map[string]any)
	for key, value := range v {
		schema, known := properties[key]
		if !known {
			schema, known = s["additionalProperties"]
		}
		if known {
			if err := check(schema, value, at+"/"+key); err != "" {
				return err
			}
		}
	}
	return ""
}

func hasType(types, value any) bool {
	if name, ok := types.(string); ok {
		types = []any{name}
	}
	for _, name := range types.([]any) {
		var fits bool
		switch value.(type) {
		case nil:
			fits = name == "null"
		case bool:
			fits = name == "boolean"
		case json.Number:
			fits = name == "number"
		case string:
			fits = name == "string"
		case []any:
			fits = name == "array"
		case map[string]any:
			fits = name == "object"
		}
		if fits {
			return true
		}
	}
	return false
}

func contains(list []any, value any) bool {
	for _, item := range list {
		if item == value {
			return true
		}
	}
	return false
}

func FuzzParse(f *testing.F) {
	for _, test := range faults {
		f.Add([]byte(test.file))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		node, problems := yamltree.Parse("f", data, 1<<14)
		if node == nil || problems.Err() != nil {
			return
		}
		file, problems := build.Parse(node)
		wellFormed(t, problems)
		if problems.Err() != nil {
			return
		}
		plan, problems := build.MakePlan(file, build.Choice{})
		wellFormed(t, problems)
		if (plan == nil) != (problems.Err() != nil) {
			t.Errorf("plan %v beside %v", plan, problems)
		}
		if plan != nil {
			text, err := json.Marshal(plan)
			if err != nil || !bytes.Contains(text, []byte("steps")) {
				t.Error(err)
			}
		}
	})
}

func wellFormed(t *testing.T, problems fault.Problems) {
	t.Helper()
	for _, p := range problems {
		if p.Line < 1 || p.Code == "" || p.Text == "" {
			t.Errorf("problem without place, code or words: %+v", p)
		}
	}
}

// TestNamesAndNeedsThatMultiply: what variables and matrices make of a small file is bounded.
func TestNamesAndNeedsThatMultiply(t *testing.T) {
	t.Parallel()
	axis := "[" + strings.Repeat("a,", 200)[:399] + "]"
	for i := range 200 {
		axis = strings.Replace(axis, "a", fmt.Sprint(i), 1)
	}
	matrix := "{needs: [\"${x}\", \"${y}\"], matrix: {v: " + axis + "}, " + ok[1:]
	values := build.Variables{build.Texts("test", map[string]string{"x": "a", "y": "b", "control": "a\x1b[2J\nb", "long": strings.Repeat("y", 2000)})}
	for text, want := range map[string]string{
		"s:\n  a: {matrix: {v: [\"${long}\"]}, " + ok[1:]: "f:2:7: s/a/matrix: the name of a combination has 2008 bytes; at most 1000 are read",
		"s:\n  \"${long}\": {" + ok[1:]:                   "f:2:3: s: the name has 2000 bytes; at most 1000 are read",
		"s:\n  \"${control}\": {" + ok[1:]:                "f:2:3: s/a\x1b[2J\nb: the name \"a\\x1b[2J\\nb\" has a control character",
		"s:\n  a: " + matrix + "\n  b: " + matrix + "\n  c: " + matrix + "\n  d: " + matrix://
		"f:4:15: s/c (v=100)/needs[0]: the steps of the file need each other more than 200000 times, combinations of matrices included",
	} {
		file, problems := build.Parse(tree(t, text))
		if problems.Err() != nil {
			t.Fatal(problems)
		}
		_, problems = build.MakePlan(file, build.Choice{Variables: values})
		if got := fmt.Sprint(problems.Err()); got != want {
			t.Errorf("%s", got)
		}
	}
	file, _ := build.Parse(tree(t, "s:\n  a: "+matrix+"\n  b: "+matrix))
	_, problems := build.MakePlan(file, build.Choice{Variables: values})
	if text := problems.Err().Error(); len(problems) != 3 || len(text) > 10<<10 {
		t.Errorf("%d problems in %d bytes about circles", len(problems), len(text))
	}
}
