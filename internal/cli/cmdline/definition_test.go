package cmdline

import (
	"strings"
	"testing"
)

// TestExpressionsOfGatesAreCompiled: a fault is found where the file is read, at its place, before any deployment.
func TestExpressionsOfGatesAreCompiled(t *testing.T) {
	t.Parallel()
	const at = `waybill.yaml:6:25: cel of gate "agreed": at character `
	for cel, want := range map[string]string{
		"targets.all(o, o.status.revision == '${revision}')": "",
		"targets.all(o,":         at + "15: Syntax error: ",
		"size(targets)":          at + "1: want true or false, this is of type int",
		"targets == ${revision}": at + "12: Syntax error: ",
	} {
		_, problems := parseDefinition("waybill.yaml", []byte(`pipeline: shop
stages:
- name: eu
  environment: {app: {apiVersion: a/v1, kind: K, name: shop}, targets: [{cluster: leaf, namespace: shop}]}
  gates:
  - {name: agreed, cel: "`+cel+`"}
`))
		got := ""
		if len(problems) > 0 {
			got = problems[0].String()
		}
		if len(problems) > 1 || !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: got %v, want %q", cel, problems, want)
		}
	}
}
