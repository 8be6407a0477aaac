package build

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/testresult"
)

// namedTests is the number of a failed step's failed tests that the error names.
const namedTests = 5

// errorLines is the number of a failed step's last lines that the error quotes.
const errorLines = 20

// output is the outcome's document.
type output struct {
	Text      string                      `json:"text,omitempty"` // text for people
	Build     string                      `json:"build"`
	Artifacts []pipeline.RevisionArtifact `json:"artifacts,omitempty"`
}

// built is the evidence of a build: a folder of results, or rows of the database.
type built interface {
	id() string // id of the build, which `waybill build show` takes
	// end returns the build's last status; nil if it ended without one.
	end(ctx context.Context) (*build.Update, error)
	// report stores that the outcome was handed to the conductor.
	report(ctx context.Context) error
	// artifacts lists those of a build that succeeded, after it was found whole.
	artifacts(ctx context.Context) ([]build.Artifact, error)
	open(ctx context.Context, a build.Artifact) (io.ReadCloser, error)
	steps(ctx context.Context) ([]builtStep, error)
	// tail returns the last entries of a step's log.
	tail(ctx context.Context, step int) ([]build.Entry, error)
	tests(ctx context.Context, step int) (testresult.Counts, []testresult.Result, error)
}

// builtStep is one step of a build.
type builtStep struct {
	id     int
	path   string // stage/step
	at     string // its place in the file; "": not known
	status build.Status
	reason string
	whole  string // the command that prints its whole log; "": none does
}

// conclude turns results into an outcome. After a success it registers the artifacts; otherwise the outcome's error
// names the failed steps.
func (t *task) conclude(ctx context.Context, r built) (action.Outcome, error) {
	final, err := r.end(ctx)
	if err != nil {
		return action.Outcome{}, err
	}
	if final == nil {
		return action.Outcome{Kind: action.Retry, Code: "build_lost", Ref: ref(r),
			Error: "the build's process ended before the build did; nothing is known of its end"}, nil
	}
	if final.Status == build.Completed || final.Status == build.Skipped {
		done, err := t.register(ctx, r)
		if !errors.Is(err, errDamaged) {
			return done, err
		}
		return buildAgain(ctx, r, "artifact_damaged", err.Error())
	}
	text, err := failure(ctx, r, *final)
	if err != nil {
		return action.Outcome{}, err
	}
	return buildAgain(ctx, r, failureCode(final.Status), text)
}

// failureCode returns the code of the outcome of a build that did not succeed.
func failureCode(s build.Status) string {
	switch s {
	case build.TimedOut:
		return "build_timed_out"
	case build.Lost:
		return "build_lost"
	}
	return "build_failed"
}

// errDamaged reports an artifact whose stored bytes are not those that the step yielded. Only another build can yield them again.
var errDamaged = errors.New("the artifact is damaged")

// buildAgain returns the outcome of an attempt after which the next one is a new build.
func buildAgain(ctx context.Context, r built, code, text string) (action.Outcome, error) {
	if err := r.report(ctx); err != nil {
		return action.Outcome{}, fmt.Errorf("mark the build as reported: %w", err)
	}
	return action.Outcome{Kind: action.Retry, Code: code, Error: text, Ref: ref(r)}, nil
}

// ref returns the place of the evidence: the build's id, which `waybill build show` takes.
func ref(r built) string { return "build/" + r.id() }

// register finds the stage's artifacts among the build's, stores and registers them.
func (t *task) register(ctx context.Context, r built) (action.Outcome, error) {
	all, err := r.artifacts(ctx)
	if err != nil {
		return action.Outcome{}, err
	}
	chosen, err := choose(t.stage.Build.Artifacts, slices.DeleteFunc(all, build.Artifact.OfTests))
	if err != nil {
		return action.Outcome{}, err
	}
	out := output{Build: r.id()}
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
func (t *task) store(ctx context.Context, r built, label string, a build.Artifact) (pipeline.RevisionArtifact, error) {
	in, err := r.open(ctx, a)
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
		return pipeline.RevisionArtifact{}, fmt.Errorf("%w: %s has changed since it was built: sha256 %s, was %s",
			errDamaged, a.Name, digest, a.SHA256)
	}
	return pipeline.RevisionArtifact{Label: label, Name: a.Name, Digest: digest, Size: size, Blob: key, Build: r.id()}, nil
}

// choose finds each wanted artifact by its name, else by its glob. None or several is an error, not
// a guess.
func choose(wanted []pipeline.Artifact, built []build.Artifact) ([]build.Artifact, error) {
	var chosen []build.Artifact
	var faults, unpackable []string
	for _, w := range wanted {
		fits := matching(built, func(name string) bool { return name == w.Path })
		if len(fits) == 0 {
			fits = matching(built, func(name string) bool { return build.MatchGlob(w.Path, name) })
		}
		switch len(fits) {
		case 1:
			chosen = append(chosen, fits[0])
			if err := pipeline.CheckArtifactName(fits[0].Name); err != nil {
				unpackable = append(unpackable, err.Error())
			}
		case 0:
			faults = append(faults, fmt.Sprintf("artifact %s: the build yields no %s; it yields %s", w.Label, w.Path, names(built)))
		default:
			faults = append(faults, fmt.Sprintf("artifact %s: %s fits several of the build's artifacts: %s", w.Label, w.Path, names(fits)))
		}
	}
	if faults != nil {
		return nil, fatal("artifact_missing", "%s", strings.Join(faults, "\n"))
	}
	if unpackable != nil {
		return nil, fatal("artifact_unpackable", "%s", strings.Join(unpackable, "\n"))
	}
	return chosen, nil
}

func matching(built []build.Artifact, fits func(name string) bool) []build.Artifact {
	var out []build.Artifact
	for _, a := range built {
		if fits(a.Name) {
			out = append(out, a)
		}
	}
	return out
}

// names lists artifacts for people, not more than a few.
func names(artifacts []build.Artifact) string {
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
func failure(ctx context.Context, r built, final build.Update) (string, error) {
	steps, err := r.steps(ctx)
	if err != nil {
		return "", err
	}
	for _, step := range steps {
		if !step.status.Broken() {
			continue
		}
		entries, err := r.tail(ctx, step.id)
		if err != nil {
			return "", err
		}
		var text strings.Builder
		fmt.Fprintf(&text, "build step %s %s: %s", step.path, words(step.status), step.reason)
		if step.at != "" {
			fmt.Fprintf(&text, " (%s)", step.at)
		}
		if step.whole != "" {
			text.WriteString("\nwhole log: " + step.whole)
		}
		tests, err := failedTests(ctx, r, step.id)
		if err != nil {
			return "", err
		}
		text.WriteString(tests)
		quote(&text, entries)
		return text.String(), nil
	}
	var text strings.Builder
	fmt.Fprintf(&text, "the build ended %s: %s", final.Status, final.Reason)
	if len(steps) == 0 { // its own log has the reason
		entries, err := r.tail(ctx, 0)
		if err != nil {
			return "", err
		}
		quote(&text, entries)
	}
	return text.String(), nil
}

// quote appends the last lines of a log.
func quote(text *strings.Builder, entries []build.Entry) {
	if len(entries) > 0 {
		text.WriteString("\nits last lines:")
	}
	for _, e := range entries {
		text.WriteString("\n  " + shortened(build.VisibleText(e.Text)))
	}
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
func failedTests(ctx context.Context, r built, step int) (string, error) {
	counts, all, err := r.tests(ctx, step)
	if err != nil || counts.Failed == 0 {
		return "", err
	}
	var names []string
	for _, result := range all {
		if result.Outcome == testresult.Failed && len(names) < namedTests {
			names = append(names, shortened(build.VisibleText([]byte(result.Title()))))
		}
	}
	text := fmt.Sprintf("\n%d of its %d tests failed: %s", counts.Failed, counts.Tests, strings.Join(names, ", "))
	if more := counts.Failed - len(names); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text, nil
}
