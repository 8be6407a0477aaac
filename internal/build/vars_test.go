package build_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

func TestParseVars(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		file   string
		values map[string]string
		want   string
	}{
		"none":           {"", map[string]string{}, ""},
		"scalars":        {"vars: {a: x, b: 1.50, c: true, d: }", map[string]string{"a": "x", "b": "1.50", "c": "true", "d": ""}, ""},
		"empty":          {"vars:\n", map[string]string{}, ""},
		"the later wins": {"vars: {a: 1, b: 1}\n---\nvars: {a: 2}", map[string]string{"a": "2", "b": "1"}, ""},
		"other keys":     {"var: {a: 1}", map[string]string{}, "f:1:1: unknown key \"var\" (did you mean \"vars\"?)"},
		"a list":         {"vars: [a]", map[string]string{}, "f:1:7: vars: want a mapping of variables, found a list"},
		"a mapping in":   {"vars: {a: {b: c}, d: e}", map[string]string{"d": "e"}, "f:1:11: vars/a: want a scalar, found a mapping"},
	} {
		documents, problems := yamltree.ParseAll("f", []byte(c.file), yamltree.BuildFile)
		if problems != nil {
			t.Fatal(problems)
		}
		source, problems := build.ParseVars("f", documents)
		values := map[string]string{}
		for name, v := range source.Values {
			if values[name] = v.Text; v.At.File != "f" || v.At.Line == 0 {
				t.Errorf("%s is at %v", name, v.At)
			}
		}
		if diff := cmp.Diff(c.values, values); diff != "" || source.Name != "f" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, problems.Error()); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", name, diff)
		}
	}
}

func TestStrictVariables(t *testing.T) {
	t.Parallel()
	file, _ := build.Parse(tree(t, "s: {a: {container: {image: \"${x}\", cmds: [\"${HOME} ${%y%}\"]}}}"))
	_, problems := build.MakePlan(file, build.Choice{Strict: true})
	want := "f:1:28: s/a/container/image: the variable \"x\" has no value; ${%x%} leaves it to the shell\n" +
		"f:1:43: s/a/container/cmds[0]: the variable \"HOME\" has no value; ${%HOME%} leaves it to the shell"
	if diff := cmp.Diff(want, problems.Error()); diff != "" || problems.Err() == nil {
		t.Error(diff)
	}
	if _, problems := build.MakePlan(file, build.Choice{}); problems.Err() != nil || len(problems) != 1 {
		t.Errorf("otherwise: %v", problems)
	}
}
