package build

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/results"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// namedTests is how many of a failed step's failed tests the error names.
const namedTests = 5

// errorLines is how many of a failed step's last lines the error quotes.
const errorLines = 20

// output is the outcome's document.
type output struct {
	Text      string                      `json:"text,omitempty"` // for people
	Build     string                      `json:"build"`
	Artifacts []pipeline.RevisionArtifact `json:"artifacts"`
}

// conclude turns results into an outcome. After a success it registers the artifacts; otherwise the
// outcome's error names what failed.
func (t *task) conclude(ctx context.Context, r *results.Reader) (action.Outcome, error) {
	final, err := r.Final()
	if err != nil {
		return action.Outcome{}, err
	}
	if final == nil {
		return action.Outcome{Kind: action.Retry, Code: "build_lost", Ref: ref(r),
			Error: "the build's process ended before the build did; nothing is known of its end"}, nil
	}
	if final.Status == build.Completed || final.Status == build.Skipped {
		return t.register(ctx, r)
	}
	text, err := failure(r, *final)
	if err != nil {
		return action.Outcome{}, err
	}
	if err := os.WriteFile(filepath.Join(r.Dir(), reportedFile), nil, 0o600); err != nil {
		return action.Outcome{}, fmt.Errorf("mark the build as reported: %w", err)
	}
	code := "build_failed"
	if final.Status == build.TimedOut {
		code = "build_timed_out"
	}
	return action.Outcome{Kind: action.Retry, Code: code, Error: text, Ref: ref(r)}, nil
}

// ref returns the place of the evidence: the build's id, which `waybill build show` takes.
func ref(r *results.Reader) string { return "build/" + filepath.Base(r.Dir()) }

// register finds the stage's artifacts among the build's, stores and registers them.
func (t *task) register(ctx context.Context, r *results.Reader) (action.Outcome, error) {
	if err := r.Verify(); err != nil {
		return action.Outcome{}, err
	}
	all, err := r.Artifacts()
	if err != nil {
		return action.Outcome{}, err
	}
	chosen, err := choose(t.stage.Build.Artifacts, slices.DeleteFunc(all, results.Artifact.OfTests))
	if err != nil {
		return action.Outcome{}, err
	}
	out := output{Build: filepath.Base(r.Dir())}
	for i, wanted := range t.stage.Build.Artifacts {
		a, err := t.store(ctx, r, wanted.Label, chosen[i])
		if err != nil {
			return action.Outcome{}, fmt.Errorf("store artifact %s: %w", wanted.Label, err)
		}
		if err := t.Ledger.RegisterArtifact(ctx, t.revision.Pipeline, t.revision.Seq, a); err != nil {
			return action.Outcome{}, fmt.Errorf("register artifact %s: %w", wanted.Label, err)
		}
		out.Artifacts = append(out.Artifacts, a)
	}
	text, err := json.Marshal(out)
	if err != nil {
		return action.Outcome{}, fmt.Errorf("write the build's output: %w", err)
	}
	return action.Outcome{Kind: action.Done, Output: text, Ref: ref(r)}, nil
}

// store puts an artifact's bytes into the blob store.
func (t *task) store(ctx context.Context, r *results.Reader, label string, a results.Artifact) (pipeline.RevisionArtifact, error) {
	in, err := r.OpenArtifact(a)
	if err != nil {
		return pipeline.RevisionArtifact{}, err
	}
	defer in.Close()
	key, err := t.Ledger.UploadKey(ctx)
	if err != nil {
		return pipeline.RevisionArtifact{}, err
	}
	key, digest, size, err := t.Blobs.Put(ctx, key, in)
	if err != nil {
		return pipeline.RevisionArtifact{}, err
	}
	if digest != a.SHA256 || size != a.Size {
		return pipeline.RevisionArtifact{}, fmt.Errorf("%s has changed since it was built: sha256 %s, was %s", a.Name, digest, a.SHA256)
	}
	return pipeline.RevisionArtifact{Label: label, Name: a.Name, Digest: digest, Size: size, Blob: key, Build: filepath.Base(r.Dir())}, nil
}

// choose finds each wanted artifact by its name, else by its glob. None or several is an error, not
// a guess.
func choose(wanted []pipeline.Artifact, built []results.Artifact) ([]results.Artifact, error) {
	var chosen []results.Artifact
	var faults []string
	for _, w := range wanted {
		fits := matching(built, func(name string) bool { return name == w.Path })
		if len(fits) == 0 {
			fits = matching(built, func(name string) bool { return build.MatchGlob(w.Path, name) })
		}
		switch len(fits) {
		case 1:
			chosen = append(chosen, fits[0])
		case 0:
			faults = append(faults, fmt.Sprintf("artifact %s: the build yields no %s; it yields %s", w.Label, w.Path, names(built)))
		default:
			faults = append(faults, fmt.Sprintf("artifact %s: %s fits several of the build's artifacts: %s", w.Label, w.Path, names(fits)))
		}
	}
	if faults != nil {
		return nil, fatal("artifact_missing", "%s", strings.Join(faults, "\n"))
	}
	return chosen, nil
}

func matching(built []results.Artifact, fits func(name string) bool) []results.Artifact {
	var out []results.Artifact
	for _, a := range built {
		if fits(a.Name) {
			out = append(out, a)
		}
	}
	return out
}

// names lists artifacts for people, not more than a few.
func names(artifacts []results.Artifact) string {
	const most = 8
	var out []string
	for i, a := range artifacts {
		if i == most {
			out = append(out, fmt.Sprintf("and %d more", len(artifacts)-most))
			break
		}
		out = append(out, a.Name)
	}
	if out == nil {
		return "none (a step keeps files by its key artifacts)"
	}
	return strings.Join(out, ", ")
}

// failure names the first step that failed, its place in the file, its failed tests, and the last
// lines that it printed.
func failure(r *results.Reader, final results.Update) (string, error) {
	b, err := r.Build()
	if err != nil {
		return "", err
	}
	for _, step := range b.Plan.Steps {
		last, err := r.Last(step.ID)
		if err != nil {
			return "", err
		}
		if !last.Status.Broken() {
			continue
		}
		entries, _, err := r.Tail(step.ID, errorLines)
		if err != nil {
			return "", err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "build step %s %s: %s (%s)\nwhole log: waybill build log %s %s", step.Path(), words(last.Status),
			last.Reason, step.At, filepath.Base(r.Dir()), step.Path())
		tests, err := failedTests(r, step.ID)
		if err != nil {
			return "", err
		}
		text.WriteString(tests)
		if len(entries) > 0 {
			text.WriteString("\nits last lines:")
		}
		for _, e := range entries {
			text.WriteString("\n  " + shortened(build.VisibleText(e.Text)))
		}
		return text.String(), nil
	}
	return fmt.Sprintf("the build ended %s: %s", final.Status, final.Reason), nil
}

// shortened cuts a line that would leave no room for other lines.
func shortened(line string) string {
	const most = 160
	if letters := []rune(line); len(letters) > most {
		return string(letters[:most]) + "…"
	}
	return line
}

// words returns a status as a part of a sentence.
func words(s build.Status) string {
	if s == build.TimedOut {
		return "timed out"
	}
	return strings.ToLower(string(s))
}

// failedTests returns a line with the first failed tests of a step; "" if it has none.
func failedTests(r *results.Reader, step int) (string, error) {
	files, err := r.Tests()
	if err != nil {
		return "", err
	}
	var counts testresult.Counts
	var names []string
	for _, f := range files {
		if f.Step != step {
			continue
		}
		counts.Add(f.Counts)
		for _, result := range f.Results {
			if result.Outcome == testresult.Failed && len(names) < namedTests {
				names = append(names, shortened(build.VisibleText([]byte(result.Title()))))
			}
		}
	}
	if counts.Failed == 0 {
		return "", nil
	}
	text := fmt.Sprintf("\n%d of its %d tests failed: %s", counts.Failed, counts.Tests, strings.Join(names, ", "))
	if more := counts.Failed - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text, nil
}
