package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/goldentest"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/server"
)

// described has the parts of the API's description that the tests read.
type described struct {
	Paths map[string]map[string]struct {
		OperationID string           `json:"operationId"`
		Parameters  []describedParam `json:"parameters"`
		Responses   map[string]any   `json:"responses"`
	} `json:"paths"`
}

type describedParam struct {
	Name     string `json:"name"`
	In       string `json:"in"`
	Required bool   `json:"required"`
	Schema   struct {
		Type any `json:"type"`
	} `json:"schema"`
}

func description(t *testing.T, s *testServer) (d described) {
	t.Helper()
	_, body, _ := s.ask(t, "GET", "/api/v1/openapi.json", "")
	if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Paths) == 0 {
		t.Fatalf("%v: %.200s", err, body)
	}
	return d
}

// TestDescriptionIsGolden: the types of generated clients come from the description, so no byte of it changes by accident.
func TestDescriptionIsGolden(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	status, body, _ := s.ask(t, "GET", "/api/v1/openapi.json", "")
	if status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	goldentest.CompareJSON(t, "testdata/openapi.json", []byte(body))
}

// TestEveryRouteOfTheAPIIsDescribed: operations get on the mux with their description, and in no other way.
func TestEveryRouteOfTheAPIIsDescribed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	direct := regexp.MustCompile(`mux\.Handle(?:Func)?\(([^,]+),`)
	var patterns []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range direct.FindAllSubmatch(text, -1) {
			if !strings.HasSuffix(file, "_test.go") {
				patterns = append(patterns, string(found[1]))
			}
		}
	}
	slices.Sort(patterns)
	want := []string{`"/"`, `"/"`, `"/"`, `"/api"`, `"/api/"`, `"GET /healthz"`, `"GET /healthz"`, `"GET /metrics"`, `"GET /metrics"`,
		`"GET /readyz"`, `"GET /readyz"`, `approvalPath`, `o.Method+" "+o.Path`, `o.Path`, `promotionPath`} // those of o are described, and the two paths alone are answered 404
	if !slices.Equal(patterns, want) {
		t.Errorf("registered without a description: got %q, want %q", patterns, want)
	}
	d := description(t, serve(t, ""))
	seen := map[string]bool{}
	for path, operations := range d.Paths {
		for method, o := range operations {
			if o.OperationID == "" || seen[o.OperationID] || len(o.Responses) == 0 {
				t.Errorf("%s %s: the id %q is missing or another one's, or answers are missing", method, path, o.OperationID)
			}
			seen[o.OperationID] = true
		}
	}
	for _, route := range []string{"GET /api/project", "POST /api/project/{project}/build", "GET /api/build",
		"GET /api/build/{build}", "GET /api/build/{build}/step",
		"GET /api/build/{build}/log", "PUT /api/build/{build}/log", "GET /api/build/{build}/log/search",
		"GET /api/log/search", "GET /api/build/{build}/stream",
		"GET /api/build/{build}/artifact", "GET /api/build/{build}/artifact/{artifact}", "POST /api/build/{build}/artifact",
		"PUT /api/build/{build}/status",
		"GET /api/build/{build}/test-result", "POST /api/build/{build}/test-result", "POST /api/build/{build}/cancel",
		"POST /api/build/{build}/rerun", "DELETE /api/build/{build}"} {
		method, path, _ := strings.Cut(route, " ")
		if _, ok := d.Paths[path][strings.ToLower(method)]; !ok {
			t.Errorf("%s is not described", route)
		}
	}
}

// TestRepeatedParametersAreRefused: of two values one would count in silence.
func TestRepeatedParametersAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	braces := regexp.MustCompile(`\{[^}]+\}`)
	refused := 0
	for path, operations := range description(t, s).Paths {
		for method, o := range operations {
			for _, p := range o.Parameters {
				if p.In != "query" {
					continue
				}
				repeated := fmt.Sprintf("%s?%s=1&%[2]s=2", braces.ReplaceAllString(path, "1"), p.Name)
				status, answer, _ := s.ask(t, strings.ToUpper(method), repeated, "", "Authorization", bearer)
				says := status == http.StatusBadRequest && strings.Contains(answer, fmt.Sprintf(`query parameter \"%s\" is given 2 times`, p.Name))
				if may := strings.Contains(fmt.Sprint(p.Schema.Type), "array"); says == may {
					t.Errorf("%s %s: %d %s", method, repeated, status, answer)
				}
				refused++
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d parameters were tried", refused)
	}
}

// TestALocalActsAsItsUser: a command in the process of the log acts as its user, who may do everything.
func TestALocalActsAsItsUser(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	local := server.NewLocal(s.Service, "bob")
	paused, err := operation.ChangeLimit.Call(t.Context(), local,
		operation.LaneInput{Lane: "work/a", Body: operation.LimitBody{Command: "pause"}})
	if err != nil || paused.PausedBy != "bob" {
		t.Errorf("paused by %q, %v", paused.PausedBy, err)
	}
}

// TestAnOperationThatIsNotServed: a caller that lacks an operation refuses it.
func TestAnOperationThatIsNotServed(t *testing.T) {
	t.Parallel()
	if _, err := operation.GetStatus.Call(t.Context(), operation.Calls{}, operation.Nothing{}); err == nil ||
		!strings.Contains(err.Error(), "status is not served") {
		t.Errorf("got %v", err)
	}
}

// operationValue is a value of package operation, or a function that returns one.
type operationValue struct{ name, id, method string }

// operationValues reads the values of package operation. The id of a function's value is "".
func operationValues(t *testing.T) (all []operationValue) {
	t.Helper()
	value := regexp.MustCompile(
		`(\w+)(?: = |\([^)]*\) )Operation\[[^{]+\][^}]*?ID: (?:"([a-z-]+)"|[^"]*"[a-z-]+"), Method: http\.Method(\w+)`)
	for _, text := range readFiles(t, "../operation/*.go") {
		for _, match := range value.FindAllStringSubmatch(text, -1) {
			all = append(all, operationValue{match[1], match[2], match[3]})
		}
	}
	if len(all) < 50 {
		t.Fatalf("found %d values: the rule would hold for nothing", len(all))
	}
	return all
}

// readFiles reads the files that match a pattern.
func readFiles(t *testing.T, pattern string) (texts []string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	return texts
}

// TestEveryOperationHasARoute: a value without a route would be refused by every caller.
func TestEveryOperationHasARoute(t *testing.T) {
	t.Parallel()
	served := map[string]bool{"": true}
	for _, operations := range description(t, serve(t, "")).Paths {
		for _, o := range operations {
			served[o.OperationID] = true
		}
	}
	for _, op := range operationValues(t) {
		if !served[op.id] {
			t.Errorf("operation.%s has no route: give its value to handle", op.name)
		}
	}
}

// TestEveryChangeIsTested: an operation that changes something is performed by a test through its value.
// TestEveryQuestionIsAnsweredAlike requires the same of those that read.
func TestEveryChangeIsTested(t *testing.T) {
	t.Parallel()
	tests := strings.Join(readFiles(t, "*_test.go"), "")
	for _, op := range operationValues(t) {
		performed := regexp.MustCompile(`operation\.` + op.name + `(\.Call\(|\([^)]*\)\.Call\(|, )`)
		if op.method != "Get" && !performed.MatchString(tests) {
			t.Errorf("no test performs operation.%s: call the value in one, and compare what it changes", op.name)
		}
	}
}
