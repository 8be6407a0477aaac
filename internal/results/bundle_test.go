package results_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/workspace"
)

// bundled returns a step with a log and an artifact.
func bundled(log, artifact string) results.BundledStep {
	sum := func(text string) string {
		digest := sha256.Sum256([]byte(text))
		return hex.EncodeToString(digest[:])
	}
	return results.BundledStep{ID: 1, Log: strings.NewReader(log),
		End:       build.Update{Status: build.Completed, Trailer: &build.Trailer{Entries: 1, Bytes: int64(len(log)), SHA256: sum(log)}},
		Artifacts: []build.Artifact{{ID: 7, Name: "../tool\x1b", Size: int64(len(artifact)), SHA256: sum(artifact), Kind: build.KindFile}},
		Open:      func(build.Artifact) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(artifact)), nil }}
}

func TestABundleIsAFolderOfResults(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"whole": {func(string) error { return nil }, ""},
		"another log": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "steps", "1", "output.log"), []byte("other\n"), 0o600)
		}, "its log or an artifact is damaged"},
		"no artifact": {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "steps", "1", "artifacts")) },
			"its log or an artifact is damaged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			b, err := results.NewBundle(&out)
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(b.AddStep(bundled("made\n", "the tool")), b.Close(results.Earlier{Build: "41", Steps: []build.Earlier{
				{ID: 1, Stage: "a", Name: "b"}, {ID: 2, Stage: "a", Name: "c", Missing: "it failed"}}}))
			dir := filepath.Join(t.TempDir(), "earlier")
			if err = errors.Join(err, workspace.Extract(t.Context(), &out, dir, "")); err != nil {
				t.Fatal(err)
			}
			if err := c.spoil(dir); err != nil {
				t.Fatal(err)
			}
			r, err := results.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			earlier, err := r.Earlier()
			if err != nil || earlier.Steps[0].Missing != c.want || earlier.Steps[1].Missing != "it failed" {
				t.Errorf("%+v, %v", earlier, err)
			}
		})
	}
}

// TestABundleHasWhatItsListsSay: a log or an artifact that is shorter, or cannot be read, is an error.
func TestABundleHasWhatItsListsSay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(s *results.BundledStep){
		"a short log": func(s *results.BundledStep) { s.Log = strings.NewReader("ma") },
		"no trailer":  func(s *results.BundledStep) { s.End.Trailer = nil },
		"a short artifact": func(s *results.BundledStep) {
			s.Open = func(build.Artifact) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("the")), nil }
		},
		"no artifact": func(s *results.BundledStep) {
			s.Open = func(build.Artifact) (io.ReadCloser, error) { return nil, errors.New("it is gone") }
		},
	} {
		b, err := results.NewBundle(io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		step := bundled("made\n", "the tool")
		if change(&step); b.AddStep(step) == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
