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
