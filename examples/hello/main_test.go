package main

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestServiceSaysWhoItIs(t *testing.T) {
	service := httptest.NewServer(routes(identity{Greeting: greeting, Host: "oak", Revision: "3f2c9a1"}))
	defer service.Close()
	for path, want := range map[string]string{"/": greeting + " from oak, revision 3f2c9a1", "/ready": "ok",
		"/version": `"revision":"3f2c9a1"`} {
		response, err := service.Client().Get(service.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("GET %s = %q, %v; want it to contain %q", path, body, err, want)
		}
	}
}
