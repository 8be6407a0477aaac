package build_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestListVariables(t *testing.T) {
	t.Parallel()
	file, problems := build.Parse(tree(t, `inputs:
  - {name: token, type: password}
  - {name: level, type: string, default: info}
environments: {e: {level: hidden, url: "https://${token}@${host}/${none}"}}
`))
	if problems != nil {
		t.Fatal(problems)
	}
	choice := build.Choice{Environment: "e", Inputs: map[string]string{"token": "hunter22"},
		Variables: build.Variables{build.Texts("first", map[string]string{"host": "h"}),
			build.Texts("second", map[string]string{"host": "x", "url": "x"})}}
	variables, problems := file.Variables(choice)
	if problems != nil {
		t.Fatal(problems)
	}
	all, problems := variables.List()
	var got []string
	for _, v := range all {
		got = append(got, v.Name+" = "+v.Value+" of "+v.Source+" at "+v.At.String())
	}
	want := []string{"host = h of first at ", "level = info of default of the input at f:3:42",
		"token = *** of --input at f:2:5", "url = https://***@h/${none} of environment e at f:4:40"}
	if diff := cmp.Diff(want, got); diff != "" || problems != nil {
		t.Errorf("%v (-want +got):\n%s", problems, diff)
	}
}

func TestListVariablesInACircle(t *testing.T) {
	t.Parallel()
	_, problems := build.Variables{build.Texts("test", map[string]string{"a": "${b}", "b": "${a}", "c": "x"})}.List()
	want := "a: these variables refer to each other in a circle: a → b → a"
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestVariablesThatGrowAreRefused(t *testing.T) {
	t.Parallel()
	values := map[string]string{"a": strings.Repeat("x", 1<<20), "b": "${a}${a}${a}", "c": "${a}${a}${a}", "d": "${a}${a}${a}"}
	_, problems := build.Variables{build.Texts("test", values)}.List()
	if problems.Err() == nil || problems[0].Text != "d: the variables grow to more than 8388608 bytes" {
		t.Errorf("problems %v", problems)
	}
	file, _ := build.Parse(tree(t, "inputs: [{name: p, type: password, default: \"${a}\"}]\ns: {a: "+ok+"}"))
	_, problems = build.MakePlan(file, build.Choice{Variables: build.Variables{build.Texts("test", values)}})
	want := "f:1:45: inputs: the passwords have more than 262144 bytes in all"
	if problems.Error() != want {
		t.Errorf("problems %v, want %s", problems, want)
	}
}

// TestValuesDoNotMultiply: neither empty values nor long chains take time or memory.
func TestValuesDoNotMultiply(t *testing.T) {
	t.Parallel()
	empty, chain := map[string]string{"x0": ""}, map[string]string{"x0": "end"}
	for i := 1; i < 30_000; i++ {
		chain[fmt.Sprintf("x%d", i)] = fmt.Sprintf("${x%d}", i-1)
	}
	for i := 1; i < 60; i++ {
		empty[fmt.Sprintf("x%d", i)] = fmt.Sprintf("${x%d}${x%d}", i-1, i-1)
	}
	for _, c := range []struct {
		values map[string]string
		text   string
		want   string
	}{
		{empty, "${x59}", "its variables grow to more than 8388608 bytes"},
		{chain, "${x29999}", "its variables are nested more than 100 deep"},
		{chain, "${x99}", "<nil>"},
	} {
		_, _, err := build.Substitute(build.Variables{build.Texts("test", c.values)}, c.text)
		if got := fmt.Sprint(err); got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}
