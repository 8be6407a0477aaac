package server_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestScopesOfBuildRoutes: each operation about builds is allowed to exactly the scopes that its row names. An
// operation without a row is an error.
func TestScopesOfBuildRoutes(t *testing.T) {
	t.Parallel()
	every := []string{"read", "execute", "operate", "define", "approve", "report", "worker"}
	reporters, execute, operate := []string{"report", "worker"}, []string{"execute"}, []string{"operate"}
	table := map[string][]string{
		"GET /api/build":                                  every,
		"GET /api/build/{build}":                          every,
		"DELETE /api/build/{build}":                       operate,
		"GET /api/build/{build}/artifact":                 every,
		"POST /api/build/{build}/artifact":                reporters,
		"GET /api/build/{build}/artifact/{artifact}":      every,
		"POST /api/build/{build}/cancel":                  operate,
		"GET /api/build/{build}/log":                      every,
		"PUT /api/build/{build}/log":                      reporters,
		"GET /api/build/{build}/log/search":               every,
		"POST /api/build/{build}/rerun":                   execute,
		"PUT /api/build/{build}/status":                   reporters,
		"GET /api/build/{build}/step":                     every,
		"GET /api/build/{build}/stream":                   every,
		"GET /api/build/{build}/test-result":              every,
		"POST /api/build/{build}/test-result":             reporters,
		"GET /api/build/{build}/test-result/detail":       every,
		"GET /api/build/{build}/test-result/list-summary": every,
		"GET /api/build/{build}/test-result/summary":      every,
		"GET /api/log/search":                             every,
		"GET /api/project":                                every,
		"POST /api/project/{project}/build":               execute,
	}
	s := serve(t, "0.0.0.0:7070")
	senders := map[string]string{"": "", "unknown": "Bearer not-a-token-of-this-server"}
	for _, scope := range every {
		storeToken(t, s.Ledger, scope, "the-secret-of-"+scope, scope)
		senders[scope] = "Bearer the-secret-of-" + scope
	}
	found := map[string][]string{}
	for _, route := range s.buildRoutes(t) {
		found[route] = []string{}
		method, path, _ := strings.Cut(route, " ")
		path = strings.NewReplacer("{build}", "99", "{artifact}", "1", "{project}", "shop").Replace(path)
		for sender, credentials := range senders {
			var headers []string
			if credentials != "" {
				headers = []string{"Authorization", credentials}
			}
			body := ""
			if method == http.MethodPut {
				headers, body = append(headers, "Content-Type", "application/json"), "{}"
			}
			status, text, _ := s.ask(t, method, path, body, headers...)
			stored := slices.Contains(every, sender)
			switch {
			case !stored && status != http.StatusUnauthorized, status >= http.StatusInternalServerError, status == http.StatusUnauthorized && stored:
				t.Errorf("%s with the token %q: %d %s", route, sender, status, text)
			case stored && status != http.StatusForbidden:
				found[route] = append(found[route], sender)
			}
		}
	}
	for _, scopes := range table {
		slices.Sort(scopes)
	}
	for _, scopes := range found {
		slices.Sort(scopes)
	}
	if diff := cmp.Diff(table, found); diff != "" {
		t.Error(diff)
	}
}

// buildRoutes lists the operations about builds that the description of the API has.
func (s *testServer) buildRoutes(t *testing.T) (routes []string) {
	t.Helper()
	_, text, _ := s.ask(t, "GET", "/api/v1/openapi.json", "", "Authorization", bearer)
	var described struct {
		Paths map[string]map[string]json.RawMessage `json:"paths"`
	}
	if err := json.Unmarshal([]byte(text), &described); err != nil {
		t.Fatal(err)
	}
	for path, methods := range described.Paths {
		for method := range methods {
			if strings.HasPrefix(path, "/api/") && !strings.HasPrefix(path, "/api/v1/") {
				routes = append(routes, strings.ToUpper(method)+" "+path)
			}
		}
	}
	return routes
}
