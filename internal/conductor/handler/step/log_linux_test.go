package step

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestTheEndOfAServicesLogIsRead(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	hosts, at := &Hosts{Home: home}, pipeline.Place{Host: &pipeline.Host{Name: "oak", URL: "local://oak"}}
	dir := filepath.Join(home, "hosts", "oak", "greeter", ".waybill")
	read := func(most int64) (string, bool, bool) {
		t.Helper()
		log, known, err := hosts.ReadLog(t.Context(), at, "greeter", most)
		if err != nil {
			t.Fatal(err)
		}
		return string(log.Text), log.Cut, known
	}
	if _, _, known := read(100); known {
		t.Error("there is a log before anything was deployed")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"log.1": "one\ntwo\n", "log": "three\nfour\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for most, want := range map[int64]string{100: "one\ntwo\nthree\nfour\n false", 19: "one\ntwo\nthree\nfour\n false", 18: "two\nthree\nfour\n true",
		12: "three\nfour\n true", 11: "four\n true", 6: "four\n true"} {
		text, cut, known := read(most)
		if got := fmt.Sprintf("%s %v", text, cut); got != want || !known {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
	far := pipeline.Place{Host: &pipeline.Host{Name: "far", URL: "ssh://ana@far:22"}}
	if _, known, err := hosts.ReadLog(t.Context(), far, "greeter", 100); known || err != nil {
		t.Errorf("a host elsewhere: %v, %v", known, err)
	}
	// What a service puts in its place is not waited for.
	if err := os.Remove(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := hosts.ReadLog(t.Context(), at, "greeter", 100); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}
