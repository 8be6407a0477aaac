package build_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/build"
)

func TestSubstitute(t *testing.T) {
	t.Parallel()
	variables := build.Variables{
		build.Texts("first", map[string]string{"x": "1", "deep": "<${x}>", "deeper": "${deep}${deep}", "esc": "${%x%}"}),
		build.Texts("second", map[string]string{"x": "hidden", "y": "2"}),
	}
	for text, want := range map[string]string{
		"":                   "",
		"plain":              "plain",
		"${x}":               "1",
		"a${x}b${y}c":        "a1b2c",
		"${ x }":             "1",
		"${\n\tx\n}":         "1",
		"${%x%}":             "${x}",
		"${%}":               "${}",
		"${%%}":              "${}",
		"${}":                "${}",
		"$x $(x) ${x":        "$x $(x) ${x",
		"$${x}":              "$1",
		"${a${x}}":           "${a${x}}",
		"${deep}":            "<1>",
		"${deeper}":          "<1><1>",
		"${esc}":             "${x}",
		"${HOME} ${ unset }": "${HOME} ${ unset }",
		"}${x}{":             "}1{",
	} {
		got, _, err := build.Substitute(variables, text)
		if err != nil || got != want {
			t.Errorf("Substitute(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
	_, undefined, _ := build.Substitute(variables, "${HOME} ${x} ${a${x}}")
	if diff := cmp.Diff([]string{"HOME", "a${x"}, undefined); diff != "" {
		t.Error(diff)
	}
}

func TestSubstituteNamesTheCircle(t *testing.T) {
	t.Parallel()
	variables := build.Variables{build.Texts("", map[string]string{"a": "${b}", "b": "${c}", "c": "${b}", "me": "${me}"})}
	for text, want := range map[string][]string{"${a}": {"b", "c", "b"}, "${me}": {"me", "me"}} {
		_, _, err := build.Substitute(variables, text)
		loop, ok := errors.AsType[*build.LoopError](err)
		if !ok {
			t.Fatalf("%v, want a loop", err)
		}
		if diff := cmp.Diff(want, loop.Names); diff != "" {
			t.Error(diff)
		}
	}
}

func TestSubstituteBoundsWhatMultiplies(t *testing.T) {
	t.Parallel()
	values := map[string]string{"v0": strings.Repeat("x", 100)}
	for i := 1; i < 10; i++ {
		values["v"+string(rune('0'+i))] = strings.Repeat("${v"+string(rune('0'+i-1))+"}", 10)
	}
	if _, _, err := build.Substitute(build.Variables{build.Texts("", values)}, "${v9}"); err == nil {
		t.Error("a bomb of variables was expanded")
	}
}

func FuzzSubstitute(f *testing.F) {
	f.Add("${a}${b}", "${b}", "x")
	f.Add("${%a%} ${ a", "${a}", "${%b%}")
	f.Fuzz(func(t *testing.T, text, a, b string) {
		variables := build.Variables{build.Texts("", map[string]string{"a": a, "b": b})}
		got, undefined, err := build.Substitute(variables, text)
		if err == nil && len(undefined) == 0 && !strings.Contains(text, "${") && got != text {
			t.Errorf("%q became %q without a variable", text, got)
		}
		if same, _, _ := build.Substitute(nil, "x"+strings.ReplaceAll(text, "%", "")); !strings.Contains(text, "${") &&
			same != "x"+strings.ReplaceAll(text, "%", "") {
			t.Errorf("%q changed without variables", text)
		}
	})
}
