package attempt_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
)

func TestLinesOfAServiceBearItsName(t *testing.T) {
	t.Parallel()
	var sink printed
	p := attempt.NewPrefixed(&sink, "db")
	if got := p.Tail(); got != "" {
		t.Errorf("before a line: %q", got)
	}
	for _, entries := range [][]build.Entry{
		{{Text: []byte("one")}, {Text: []byte("part"), Marks: build.Marks{Partial: true}}},
		{{Text: nil, Marks: build.Marks{Unended: true}}},
	} {
		if err := p.Output(entries); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"db | one", "db | part", "db | "}, sink.got); diff != "" {
		t.Error(diff)
	}
	if got, want := p.Tail(), ":\ndb | one\ndb | part\ndb | "; got != want {
		t.Errorf("the tail is %q, want %q", got, want)
	}
}

// TestTheTailOfAServiceIsShortAndHarmless: it is quoted in the reason of a step, which terminals show.
func TestTheTailOfAServiceIsShortAndHarmless(t *testing.T) {
	t.Parallel()
	var sink printed
	p := attempt.NewPrefixed(&sink, "db")
	for i := range 15 {
		if err := p.Output([]build.Entry{{Text: fmt.Appendf(nil, "\x1b[2Jline %d %s", i, strings.Repeat("x", 2000))}}); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimPrefix(p.Tail(), ":\n"), "\n")
	if len(lines) != 10 || !strings.Contains(lines[0], "line 5 ") || !strings.Contains(lines[9], "line 14 ") {
		t.Errorf("%d lines, the first is %.40q", len(lines), lines[0])
	}
	for _, line := range lines {
		if len(line) > 1000 || strings.Contains(line, "\x1b") {
			t.Errorf("%d bytes: %.40q", len(line), line)
		}
	}
	if len(sink.got) != 15 || !strings.Contains(sink.got[0], "\x1b[2J") || len(sink.got[0]) < 2000 {
		t.Errorf("the log has %d lines, of which the first has %d bytes", len(sink.got), len(sink.got[0]))
	}
}

func TestRefusedPullsAreNotRepeated(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"manifest for a:b not found: manifest unknown":                                      true,
		"pull access denied for a, repository does not exist or may require 'docker login'": true,
		"Head \"https://r/v2/a/manifests/b\": Unauthorized: authentication required":        true,
		"no matching manifest for linux/arm64/v8 in the manifest list entries":              true,
		"denied: requested access to the resource is denied":                                true,
		"couldn't parse image name: INVALID REFERENCE format":                               true,
		"no basic auth credentials":                                                         true,
		"toomanyrequests: You have reached your pull rate limit":                            false,
		"dial tcp: lookup registry.example: no such host":                                   false,
		"net/http: TLS handshake timeout":                                                   false,
		"received unexpected HTTP status: 503 Service Unavailable":                          false,
		"": false,
	} {
		if got := attempt.ImageRefused(text); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

func TestMemoryThatRanOutNamesItsLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int64]string{0: "OOMKilled", -1: "OOMKilled", 512 << 20: "OOMKilled, the memory limit is 512 MiB"} {
		if got := attempt.OutOfMemory(limit); got != want {
			t.Errorf("%d: %q, want %q", limit, got, want)
		}
	}
}

func TestMountsThatARunnerDoesNotHave(t *testing.T) {
	t.Parallel()
	cluster := build.Mount{Variable: build.KubeconfigVariable, Object: "prod"}
	certificates := build.Mount{Object: build.CertificatesObject}
	for name, test := range map[string]struct {
		mounts       []build.Mount
		certificates bool
		want         []string
	}{
		"none": {},
		"a cluster": {mounts: []build.Mount{cluster, {Variable: build.KubeconfigVariable, Object: "dev"}},
			want: []string{"cluster-missing --cluster prod="}},
		"certificates":      {mounts: []build.Mount{certificates}, want: []string{"certificates-missing --certificates DIR"}},
		"certificates here": {mounts: []build.Mount{certificates}, certificates: true},
		"of the user":       {mounts: []build.Mount{{Object: "registry", Kind: build.MountSecret}}},
		"both": {mounts: []build.Mount{certificates, cluster},
			want: []string{"certificates-missing --certificates DIR", "cluster-missing --cluster prod="}},
	} {
		var got []string
		attempt.CheckMounts(build.Spec{Mounts: test.mounts}, func(name string) bool { return name == "dev" }, test.certificates,
			func(code, format string, arguments ...any) {
				text := fmt.Sprintf(format, arguments...)
				got = append(got, code+" "+strings.TrimSuffix(text[strings.Index(text, "--"):], "KUBECONFIG#CONTEXT"))
			})
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestBytesOfACutCopyAreCounted: how far it came decides whether it is given up.
func TestBytesOfACutCopyAreCounted(t *testing.T) {
	t.Parallel()
	cut := errors.New("the connection was cut")
	var n int64
	in := attempt.CountingReader{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader("12345"), failing{cut})), N: &n}
	if _, err := io.Copy(io.Discard, in); !errors.Is(err, cut) || n != 8 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// failing returns three bytes with its error.
type failing struct{ err error }

func (f failing) Read(p []byte) (int, error) { return copy(p, "678"), f.err }
