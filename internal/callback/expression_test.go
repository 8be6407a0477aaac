package callback

import (
	"errors"
	"strings"
	"testing"
)

// TestExpressionsAreAboutObjects: numbers are compared as they are written, and every error names its cause.
func TestExpressionsAreAboutObjects(t *testing.T) {
	t.Parallel()
	objects := []any{
		map[string]any{"metadata": map[string]any{"name": "a", "labels": map[string]any{"tier": "web"}},
			"status": map[string]any{"ready": int64(3), "share": 0.5, "text": strings.Repeat("a", 40_000)}},
		map[string]any{"metadata": map[string]any{"name": "b"}, "status": map[string]any{"ready": int64(2), "share": int64(1)}},
	}
	for text, want := range map[string]struct {
		yes   bool
		fault string
	}{
		`targets.all(o, o.status.ready >= 2)`:                    {yes: true},
		`targets.all(o, o.status.ready == 3)`:                    {},
		`targets.exists(o, o.status.ready > 2.5)`:                {yes: true},
		`targets.all(o, o.status.share < 2)`:                     {yes: true},
		`size(targets) == 2 && targets[0].metadata.name == "a"`:  {yes: true},
		`targets.all(o, has(o.metadata.labels))`:                 {},
		`targets.all(o, o.metadata.labels.tier == "web")`:        {fault: "no such key: labels"},
		`targets[0].status.text.matches("a.{990}c")`:             {fault: "the expression matches a text that is too long"},
		`targets.all(o, targets.all(p, targets.all(q, q == p)))`: {},
		`targets[7].x == 1`:                                      {fault: "index out of bounds"},
		`targets.all(o, o.metadata.name)`:                        {fault: "no such overload"},
		`targets[0].metadata.name`:                               {fault: "its result is of type string"},
		`[` + strings.Repeat("1,", 500) + `1].all(a, [` + strings.Repeat("1,", 500) + `1].all(b, a == b))`: {fault: "cost limit exceeded"},
	} {
		e, err := ParseExpression(text)
		if err != nil {
			t.Errorf("%.60s: %v", text, err)
			continue
		}
		yes, err := e.Holds(objects)
		if want.fault == "" && (err != nil || yes != want.yes) || want.fault != "" && (err == nil || !strings.Contains(err.Error(), want.fault)) {
			t.Errorf("%.60s: %v, %v; want %v %q", text, yes, err, want.yes, want.fault)
		}
	}
}

func TestExpressionsThatCannotBeCompiledNameTheirPlace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`targets.all(o,`:         "at character 15: Syntax error",
		`input == 1`:             "at character 1: undeclared reference to 'input'",
		`size(targets)`:          "at character 1: want true or false, this is of type int",
		`targets.matches('(')`:   "at character",
		"targets == \u0000\"a\"": "at character",
		``:                       "at character",
	} {
		_, err := ParseExpression(text)
		if fault, ok := errors.AsType[*FilterError](err); !ok || !strings.Contains(fault.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
