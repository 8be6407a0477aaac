package server_test

import (
	"strings"
	"testing"
)

func TestAPlanOfAHostileDefinitionHasASmallAnswer(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	long := strings.Repeat("k", 500)
	for name, source := range map[string]string{
		"8 MB of pairs":              strings.Repeat("a: 1\n", 1_600_000),
		"repeated keys":              strings.Repeat("a: 1\n", 90_000),
		"unknown keys":               strings.Repeat("x"+long+": 1\n", 1000),
		"unknown keys in a long one": "pipeline: greeter\n" + strings.Repeat("s", 1<<20) + ": {" + strings.Repeat("true: 1, ", 30_000) + "}\n",
		"a syntax error at its end":  strings.Repeat("a: 1\n", 90_000) + "b: [\n",
	} {
		status, body, _ := s.ask(t, "POST", "/api/v1/pipelines/greeter/plan", source, "Content-Type", "application/yaml", "Authorization", bearer)
		if status != 400 || len(body) > 512<<10 || !strings.Contains(body, `"problems":`) {
			t.Errorf("%s: %d with %d bytes, want 400 with problems and few bytes: %.300s", name, status, len(body), body)
		}
	}
}
