package step

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestTheEndOfAServicesLogIsRead(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	hosts, at := &Hosts{Home: home}, pipeline.Place{Host: &pipeline.Host{Name: "oak", URL: "local://oak"}}
	dir := filepath.Join(home, "hosts", "oak", "greeter", ".waybill")
	read := func(most int64) (string, bool, bool) {
		t.Helper()
		log, known, err := hosts.ReadLog(t.Context(), at, &pipeline.Service{Name: "greeter"}, LogQuery{Most: most})
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
	for most, want := range map[int64]string{100: "one\ntwo\nthree\nfour\n false", 19: "one\ntwo\nthree\nfour\n false",
		18: "two\nthree\nfour\n true",
		12: "three\nfour\n true", 11: "four\n true", 6: "four\n true"} {
		text, cut, known := read(most)
		if got := fmt.Sprintf("%s %v", text, cut); got != want || !known {
			t.Errorf("at most %d: %q, want %q", most, got, want)
		}
	}
	far := pipeline.Place{Host: &pipeline.Host{Name: "far", URL: "ssh://ana@far:22"}}
	if _, known, err := hosts.ReadLog(t.Context(), far, &pipeline.Service{Name: "greeter"}, LogQuery{Most: 100}); known || err != nil {
		t.Errorf("a host elsewhere: %v, %v", known, err)
	}
	// A file that a service puts in its place is not waited for.
	if err := os.Remove(filepath.Join(dir, "log")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "log"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := hosts.ReadLog(t.Context(), at, &pipeline.Service{Name: "greeter"}, LogQuery{Most: 100}); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a pipe: %v", err)
	}
}

// TestALogIsFollowed reads a log from place to place, whatever happens to the file in the meantime: nothing is left
// out or read twice.
func TestALogIsFollowed(t *testing.T) {
	underEach(t, func(t *testing.T, w *world) {
		d := w.definition()
		at, _ := d.Place("greeter/beta/all/oak")
		dir := filepath.Join(w.dir, ".waybill")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write := func(name, text string) {
			t.Helper()
			file, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err == nil {
				_, err = file.WriteString(text)
			}
			if err = errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
		}
		var place LogPlace
		want := func(when, text string, more bool) {
			t.Helper()
			log, known, err := w.handler.config.ReadLog(t.Context(), at, &pipeline.Service{Name: "greeter"},
				LogQuery{Most: 12, After: place, Whole: true})
			if err != nil || !known || string(log.Text) != text || log.More != more {
				t.Fatalf("%s: %q, more %v, known %v, %v; want %q, %v", when, log.Text, log.More, known, err, text, more)
			}
			if place, err = ParseLogPlace(log.Next.String()); err != nil {
				t.Fatal(err)
			}
		}
		write("log.1", "zero\n")
		write("log", "one\ntw")
		want("the end", "zero\none\n", false)
		want("an unfinished line", "", false)
		write("log", "o\n")
		want("its end", "two\n", false)
		want("nothing new", "", false)
		write("log", "three\nfour\nfive\n")
		want("more than fits", "three\nfour\n", true)
		want("its rest", "five\n", false)
		write("log", "a line that is too long\n")
		want("the begin of a long line", "a line that ", true)
		want("more of it", "is too long\n", true)

		write("log", "six\n")
		if err := os.Rename(filepath.Join(dir, "log"), filepath.Join(dir, "log.1")); err != nil {
			t.Fatal(err)
		}
		want("before the new file", "six\n", false)
		write("log", "seven\n")
		want("the old file is read", "", true)
		want("the new file", "seven\n", false)

		write("log", "eight\n")
		content, err := os.ReadFile(filepath.Join(dir, "log"))
		if err == nil {
			err = errors.Join(os.WriteFile(filepath.Join(dir, "log.1"), content, 0o600), os.Truncate(filepath.Join(dir, "log"), 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		write("log", "nine\n")
		want("copied and emptied", "eight\n", true)
		want("after it", "nine\n", false)
	})
}

func TestPlacesInALogAreChecked(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "7", "7.", ".7", "0.7", "7.-1", "7.1.2", " 7.1", "07.1", "7.99999999999999999999"} {
		if _, err := ParseLogPlace(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want invalid", text, err)
		}
	}
}
