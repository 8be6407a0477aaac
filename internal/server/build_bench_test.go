package server_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// BenchmarkPageOfALog reads 500 entries at the start, in the middle and at the end of a log of 2 million lines of 100 bytes.
func BenchmarkPageOfALog(b *testing.B) {
	const lines = 2_000_000
	w := servertest.Start(b)
	made := servertest.NewBuild(b, w.Builds, "7", servertest.BuildPlan("a/one"))
	made.Status(0, build.Running, "")
	made.Status(1, build.Running, "")
	block := make([]string, 1000)
	for i := range block {
		block[i] = fmt.Sprintf("%-100d", i)
	}
	for range lines / len(block) {
		made.Print(1, block...)
	}
	made.Status(1, build.Completed, "")
	api := server.New(w.Service, server.Options{}).Handler()
	for _, place := range []struct {
		name  string
		after int
	}{{"end", lines - 500}, {"start", 0}, {"middle", lines / 2}} {
		b.Run(place.name, func(b *testing.B) {
			for b.Loop() {
				answer := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/build/7/log?step=1&limit=500&after=%d", place.after), nil)
				r.Host, r.RemoteAddr = "127.0.0.1:7070", "127.0.0.1:1"
				api.ServeHTTP(answer, r)
				if answer.Code != http.StatusOK {
					b.Fatal(answer.Code, answer.Body)
				}
			}
		})
	}
}
