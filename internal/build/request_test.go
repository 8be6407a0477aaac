package build_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestARequestIsComparedWithTheFile(t *testing.T) {
	t.Parallel()
	const text = `inputs:
  - {name: level, type: choice, values: [info, debug], default: info}
  - {name: count, type: number}
  - {name: key, type: password}
environments: {stage: {a: b}}
test: {unit: {container: {image: x, cmds: [make]}}}
`
	const asking = `inputs:
  - {name: a.b, type: password}
  - {name: named, type: password}
  - {name: through, type: password}
  - {name: unused, type: password}
  - {name: optional, type: password, default: ''}
environments: {e: {both: "x${through}${optional}"}}
test: {unit: {container: {image: x, cmds: ['make ${a.b} ${optional}']}}}
named: {unit: {container: {image: x, cmds: ['make $WAYBILL_INPUT_NAMED']}}}
through: {environments: [e], unit: {container: {image: '${both}', cmds: [make]}}}
none: {unit: {container: {image: x, cmds: [make]}}}
`
	tests := map[string]struct {
		text string
		asks build.Request
		want []string
	}{
		"sound": {text, build.Request{Stages: []string{"test"}, Environment: "stage",
			Inputs: map[string]string{"level": "debug", "count": "1.5"}, Passwords: map[string]string{"key": "x"}}, nil},
		"faults": {text, build.Request{Stages: []string{"tset"}, Environment: "prod",
			Inputs: map[string]string{"count": "x", "levels": "info"}, Passwords: map[string]string{"level": "info"}}, []string{
			`f:1:1: inputs: input "levels" not found; the file has level (one of info, debug), count (a number), key (a password) (did you mean "level"?)`,
			`f:1:1: stage "tset" not found; the file has test (did you mean "test"?)`,
			`f:2:5: inputs.level: the input "level" is one of info, debug, so that its value is shown; give it by -i level, or over HTTP in inputs`,
			`f:3:5: inputs/1: input count: "x" is not a number`,
			`f:5:1: environments: environment "prod" not found; the file has stage`,
		}},
		"plain password": {text, build.Request{Stages: []string{"tset"}, Inputs: map[string]string{"key": "x"}}, []string{
			`f:4:5: inputs.key: the input "key" is a password, and plain inputs are stored and shown; give it by -p key, or over HTTP in passwords`}},
		"a missing password": {asking, build.Request{Stages: []string{"test", "named", "through"}, Environment: "e"}, []string{
			`f:2:5: inputs.a.b: the password "a.b" is not given, and has no default; give it by -p a.b, or over HTTP in passwords (-p a.b= is an empty one)`,
			`f:3:5: inputs.named: the password "named" is not given, and has no default; give it by -p named, or over HTTP in passwords (-p named= is an empty one)`,
			`f:4:5: inputs.through: the password "through" is not given, and has no default; give it by -p through, or over HTTP in passwords (-p through= is an empty one)`,
		}},
		"an empty password": {asking,
			build.Request{Stages: []string{"test"}, Passwords: map[string]string{"a.b": ""}}, nil},
		"a password of a stage that does not run": {asking, build.Request{Stages: []string{"none", "through"}}, nil},
		"a password beside what the worker knows": {asking +
			"image: {x: {docker: {file: Dockerfile, tag: '1'}}}\n", build.Request{Stages: []string{"image", "test"}}, []string{
			`f:2:5: inputs.a.b: the password "a.b" is not given, and has no default; give it by -p a.b, or over HTTP in passwords (-p a.b= is an empty one)`,
		}},
		"a file with faults": {text + "other: 1\n", build.Request{Stages: []string{"tset"}, Environment: "prod"}, nil},
		"a stage with a variable": {text + "\"a${b}\": {unit: {container: {image: x, cmds: [make]}}}\n",
			build.Request{Stages: []string{"ac"}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file, _ := build.Parse(tree(t, test.text))
			var got []string
			if problems := file.Check(test.asks); problems.Err() != nil {
				got = strings.Split(problems.Error(), "\n")
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
