package server_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/server"
)

// TestEverySchemaHasAName: a type that the API sends or receives is in the table of names, and no name is there twice or in vain.
func TestEverySchemaHasAName(t *testing.T) {
	t.Parallel()
	_, body, _ := serve(t, "").ask(t, "GET", "/api/v1/openapi.json", "")
	var description struct {
		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(body), &description); err != nil {
		t.Fatal(err)
	}
	want, got := slices.Sorted(maps.Values(server.SchemaNames())), slices.Sorted(maps.Keys(description.Components.Schemas))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names in schemaNames (-) and in the description (+):\n%s", diff)
	}
}

// TestEverySecuritySchemeIsDescribed that an operation names.
func TestEverySecuritySchemeIsDescribed(t *testing.T) {
	t.Parallel()
	_, body, _ := serve(t, "").ask(t, "GET", "/api/v1/openapi.json", "")
	var description struct {
		Components struct {
			Schemes map[string]any `json:"securitySchemes"`
		} `json:"components"`
		Paths map[string]map[string]struct {
			Security []map[string][]string `json:"security"`
		} `json:"paths"`
	}
	if err := json.Unmarshal([]byte(body), &description); err != nil {
		t.Fatal(err)
	}
	named := 0
	for path, operations := range description.Paths {
		for method, o := range operations {
			for _, requirement := range o.Security {
				for scheme := range requirement {
					if named++; description.Components.Schemes[scheme] == nil {
						t.Errorf("%s %s names the scheme %q, which is not described", method, path, scheme)
					}
				}
			}
		}
	}
	if named == 0 {
		t.Error("no operation names a scheme")
	}
}
