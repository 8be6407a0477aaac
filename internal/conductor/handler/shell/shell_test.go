package shell_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/shell"
	"github.com/waybill-dev/waybill/internal/config"
)

// world is a handler with its store.
type world struct {
	*shell.Handler
	blobs blob.Store
}

// setup makes the handler of a script, and of further keys of its command.
func setup(t *testing.T, script, more string) world {
	t.Helper()
	file := "handlers: {tidy: {type: shell, parameters: {path: {type: string, default: /srv}}, command: {argv: [sh, -c, " +
		strconv.Quote(script) + "]" + more + "}}}"
	config, err := config.Read("server.yaml", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return world{shell.New(config.Handlers["tidy"], evidence.Archive{Blobs: blobs}), blobs}
}

func attempt(parameters string) conductor.Attempt {
	id := action.NewID(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), [10]byte{1})
	return conductor.Attempt{Action: action.Action{ID: id, Handler: "tidy", Parameters: json.RawMessage(parameters)}, Number: 2}
}

// archived reads what an outcome's reference names.
func (w world) archived(t *testing.T, key string) string {
	t.Helper()
	r, _, err := w.blobs.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestExitStatusesBecomeOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		script, more string
		want         action.Outcome
	}{
		{"exit 0", "", action.Outcome{Kind: action.Done}},
		{"exit 75", "", action.Outcome{Kind: action.Throttle, Code: "exit_status", Error: "exit status 75"}},
		{"echo wrong >&2; exit 78", "", action.Outcome{Kind: action.Fatal, Code: "exit_status", Error: "exit status 78: wrong"}},
		{"echo a; echo b; exit 1", "", action.Outcome{Kind: action.Retry, Code: "exit_status", Error: "exit status 1: b"}},
		{"kill -9 $$", "", action.Outcome{Kind: action.Retry, Code: "exit_status", Error: "ended by signal: killed"}},
		{"exit 3", `, exitCodes: {"3": fatal}`, action.Outcome{Kind: action.Fatal, Code: "exit_status", Error: "exit status 3"}},
		{"exit 4", `, exitCodes: {"4": success}`, action.Outcome{Kind: action.Done}},
		{"exit 75", `, exitCodes: {"75": error}`, action.Outcome{Kind: action.Retry, Code: "exit_status", Error: "exit status 75"}},
		{"exit 0", `, exitCodes: {"0": throttle}`, action.Outcome{Kind: action.Throttle, Code: "exit_status", Error: "exit status 0"}},
	}
	for _, test := range tests {
		got := setup(t, test.script, test.more).Do(t.Context(), attempt(""))
		test.want.Ref = "action/2026w47/" + attempt("").Action.ID.String() + "/exchange-2.json"
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s%s:\n%s", test.script, test.more, diff)
		}
	}
}

func TestParametersComeOnStandardInputAndOutputGoesToAFile(t *testing.T) {
	t.Setenv("WAYBILL_TEST_LISTED", "listed")
	t.Setenv("WAYBILL_TEST_OTHER", "other")
	w := setup(t, `cat > "$WAYBILL_OUTPUT"; env | cut -d= -f1; echo "$WAYBILL_TEST_LISTED" >&2`, ", env: [WAYBILL_TEST_LISTED]")
	got := w.Do(t.Context(), attempt(`{}`))
	if got.Kind != action.Done || string(got.Output) != `{"path":"/srv"}` {
		t.Errorf("%+v", got)
	}
	var seen struct{ Stdout, Stderr, Exit string }
	if err := json.Unmarshal([]byte(w.archived(t, got.Ref)), &seen); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(seen.Stdout, "OTHER") || !strings.Contains(seen.Stdout, "PATH") || seen.Stderr != "listed\n" ||
		seen.Exit != "exit status 0" {
		t.Errorf("%+v", seen)
	}
}

func TestOutputThatIsNoJSONIsText(t *testing.T) {
	t.Parallel()
	got := setup(t, `echo 'all good' > "$WAYBILL_OUTPUT"`, "").Do(t.Context(), attempt(""))
	if string(got.Output) != `{"text":"all good"}` {
		t.Errorf("%s", got.Output)
	}
}

func TestOutputThatIsAPipeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	got := setup(t, `rm -f "$WAYBILL_OUTPUT" && mkfifo "$WAYBILL_OUTPUT"`, "").Do(t.Context(), attempt(""))
	if got.Kind != action.Done || !strings.Contains(string(got.Output), "not a regular file") {
		t.Errorf("%+v", got)
	}
}

// JSON is the action's output, in the row or in the blob store; for anything else the output has
// its place.
func TestLargeOutputGoesIntoTheStore(t *testing.T) {
	t.Parallel()
	const many = `head -c 100000 /dev/zero | tr '\0' x; `
	for script, document := range map[string]bool{
		`{ printf '{"features": [{"id": "'; ` + many + `printf '"}, 1e999]}\n'; } > "$WAYBILL_OUTPUT"`: true,
		`{ ` + many + `} > "$WAYBILL_OUTPUT"`:                               false,
		`{ printf '["'; ` + many + `printf '"'; } > "$WAYBILL_OUTPUT"`:      false,
		`{ printf '["'; ` + many + `printf '"] []'; } > "$WAYBILL_OUTPUT"`:  false,
		`{ printf '["'; ` + many + `printf '"]]'; } > "$WAYBILL_OUTPUT"`:    false,
		`{ printf '"'; ` + many + `printf '"'; } > "$WAYBILL_OUTPUT"`:       true,
		`{ printf '{"a": "'; ` + many + `printf '"'; } > "$WAYBILL_OUTPUT"`: false,
	} {
		w := setup(t, script, "")
		got := w.Do(t.Context(), attempt(""))
		var where struct{ Blob string }
		if err := json.Unmarshal(got.Output, &where); (err == nil) == document {
			t.Errorf("%s: output %s, ref %q", script, got.Output, got.OutputRef)
			continue
		}
		if content := w.archived(t, where.Blob+got.OutputRef); len(content) < 100000 {
			t.Errorf("%s: %d bytes are stored", script, len(content))
		}
	}
}

func TestTheEndOfEachStreamIsArchived(t *testing.T) {
	t.Parallel()
	w := setup(t, `head -c 300000 /dev/zero | tr '\0' x; echo end; echo short >&2`, "")
	got := w.Do(t.Context(), attempt(""))
	var seen struct {
		Stdout, Stderr       string
		StdoutCut, StderrCut bool
	}
	if err := json.Unmarshal([]byte(w.archived(t, got.Ref)), &seen); err != nil {
		t.Fatal(err)
	}
	if len(seen.Stdout) != 64<<10 || !strings.HasSuffix(seen.Stdout, "xend\n") || !seen.StdoutCut ||
		seen.Stderr != "short\n" || seen.StderrCut {
		t.Errorf("stdout %d bytes, cut %v; stderr %q, cut %v", len(seen.Stdout), seen.StdoutCut, seen.Stderr, seen.StderrCut)
	}
}

func TestBadParametersAreInvalid(t *testing.T) {
	t.Parallel()
	w := setup(t, "exit 0", "")
	got := w.Do(t.Context(), attempt(`{"path": 1, "pth": 2}`))
	want := action.Outcome{Kind: action.BadInput, Code: "invalid_parameters",
		Error: "path: got number, want string\nunknown parameter \"pth\" (did you mean \"path\"?)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAMissingProgramSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	config, err := config.Read("server.yaml", []byte("handlers: {a: {type: shell, command: {argv: [/no/such/program]}}}"))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	got := shell.New(config.Handlers["a"], evidence.Archive{Blobs: blobs}).Do(t.Context(), attempt(""))
	if got.Kind != action.Throttle || got.Code != "not_started" || !strings.Contains(got.Error, "/no/such/program") {
		t.Errorf("%+v", got)
	}
}

func TestCancelTerminatesTheGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here, ended := filepath.Join(dir, "here"), filepath.Join(dir, "ended")
	if err := syscall.Mkfifo(here, 0o600); err != nil {
		t.Fatal(err)
	}
	// The child gets the signal too, and the script has time to tidy up.
	w := setup(t, `trap 'echo script >> `+ended+`; exit 1' TERM
		sh -c 'trap "echo child >> `+ended+`; exit 0" TERM; echo ready > `+here+`; while :; do sleep 0.02; done' &
		while :; do wait; done`, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	outcome := make(chan action.Outcome, 1)
	go func() { outcome <- w.Do(ctx, attempt("")) }()
	if _, err := os.ReadFile(here); err != nil { // wait until the child is there
		t.Fatal(err)
	}
	cancel(conductor.ErrCanceled)
	got := <-outcome
	if got.Kind != action.Retry || got.Error != "canceled: exit status 1" {
		t.Errorf("%+v", got)
	}
	if content, err := os.ReadFile(ended); err != nil || !strings.Contains(string(content), "script") {
		t.Errorf("%q, %v", content, err)
	}
}

func TestOrphansEndWithTheCommand(t *testing.T) {
	t.Parallel()
	held := filepath.Join(t.TempDir(), "held")
	if err := syscall.Mkfifo(held, 0o600); err != nil {
		t.Fatal(err)
	}
	released := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(held) // ends when no process has it open any more
		released <- err
	}()
	w := setup(t, `exec 3> `+held+`; sleep 600 & exit 0`, "")
	if got := w.Do(t.Context(), attempt("")); got.Kind != action.Done {
		t.Fatalf("%+v", got)
	}
	if err := <-released; err != nil {
		t.Error(err)
	}
}
