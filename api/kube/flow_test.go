package kube_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	flows "github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// walk calls visit for a schema and each schema in it, with its path.
func walk(s node, path string, visit func(path string, s node)) {
	visit(path, s)
	for name, field := range fields(s) {
		walk(field, path+"."+name, visit)
	}
	if items, ok := s["items"].(node); ok {
		walk(items, path+"[]", visit)
	}
}

// specOfFlows returns the schema of the spec of an EventFlow.
func specOfFlows(t *testing.T) node {
	t.Helper()
	return fields(schema(parse(t, flows.Definition)))["spec"]
}

// TestEachRuleOfFlowsIsTried: test/testbed/flow has an API server answer these cases.
func TestEachRuleOfFlowsIsTried(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../test/testbed/flow/testdata/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Name, Want   string
		Before, Spec node
	}
	if err := yaml.UnmarshalStrict(content, &cases); err != nil {
		t.Fatal(err)
	}
	count := 0
	walk(specOfFlows(t), "spec", func(path string, s node) {
		list, _ := s["x-kubernetes-validations"].([]any)
		for _, one := range list {
			count++
			message, tried := fmt.Sprint(at(one, "message")), false
			for _, c := range cases {
				tried = tried || c.Want != "" && strings.HasPrefix(message, c.Want)
			}
			if !tried {
				t.Errorf("%s: rules.yaml lacks a case that is refused with %q", path, message)
			}
		}
	})
	if count < 20 {
		t.Errorf("got %d rules, want those of the definition", count)
	}
}

// TestMessagesOfFlowsNameTheirFields: the message of a rule about a field begins with the field's name.
func TestMessagesOfFlowsNameTheirFields(t *testing.T) {
	t.Parallel()
	walk(specOfFlows(t), "spec", func(path string, s node) {
		list, _ := s["x-kubernetes-validations"].([]any)
		for _, one := range list {
			named, _, _ := strings.Cut(fmt.Sprint(at(one, "message")), ":")
			named, _, _ = strings.Cut(named, " ")
			parts := strings.Split(named, ".")
			isOwn := strings.HasSuffix(path, "."+named)
			if _, isChild := fields(s)[parts[len(parts)-1]]; !isOwn && !isChild && !strings.Contains(path, "."+named+".") && named != "sink" {
				t.Errorf("%s: %q names %q", path, at(one, "message"), named)
			}
		}
	})
}

// TestTextsOfFlowsAreBounded: the API server estimates the cost of a rule from the longest text, and refuses rules without a bound.
func TestTextsOfFlowsAreBounded(t *testing.T) {
	t.Parallel()
	walk(specOfFlows(t), "spec", func(path string, s node) {
		if s["type"] == "string" && s["maxLength"] == nil && s["enum"] == nil {
			t.Errorf("%s: no bound", path)
		}
		if s["type"] == "array" && s["maxItems"] == nil {
			t.Errorf("%s: no bound", path)
		}
	})
}
