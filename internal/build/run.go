package build

import (
	"errors"
	"io"
	"slices"

	"github.com/waybill-dev/waybill/internal/mask"
)

// Run is one attempt at a step, for a runner.
type Run struct {
	Build    string    // its id
	Step     PlanStep  // with passwords
	Environ  []string  // NAME=value, the secrets of the step; it must be neither stored nor shown
	Attempt  int       // number of the attempt, from 1
	Needed   []Needed  // artifacts that are put into the copy of the workspace, in this order
	Tree     string    // folder of the workspace as it was taken; the runner copies it and changes nothing in it
	Snapshot Snapshot  // the workspace as one file; zero: it was not packed
	Scratch  string    // folder for what the runner needs in the meantime
	Trace    string    // W3C traceparent that the step's program continues; "": none
	Mask     *mask.Set // the passwords, which the runner takes out of the output of the step; nil: none
}

// Snapshot is the file that has a workspace: a PAX tar with sorted paths, compressed with zstd.
type Snapshot struct {
	Path   string
	SHA256 string // digest of the tar, 64 hex digits
}

// Needed is a file that is put into a step's workspace: an artifact of a step that it needs, or a copy with variables replaced.
type Needed struct {
	Name       string // its path in the workspace
	Executable bool
	Archive    bool   // a .tar.gz, which is unpacked
	Path       string // the file that has it
	SHA256     string // 64 hex digits
}

// Exit describes the end of a step's program. It has no meaning beside an error.
type Exit struct {
	Code   int
	Reason string // details beyond the code, such as that memory ran out or a cache was found; "": nothing
}

// StepError is a Failure of the step, such as an image that does not exist. Any other error of a runner is a fault of
// its platform.
type StepError struct{ Text string }

func (e *StepError) Error() string { return e.Text }

// WaitError describes the wait during which an attempt was ended before its program began.
type WaitError struct {
	For string // such as a node with room
	Err error  // why it was ended
}

func (e *WaitError) Error() string { return e.Err.Error() }

func (e *WaitError) Unwrap() error { return e.Err }

// ErrNoTests means that a step has no test results although it must have some: a Failure of the step.
var ErrNoTests = errors.New("test results are required")

// Sink takes a runner's reports about one attempt. Its methods block while the disk is busy, which holds the program
// back. Output and Note may be called concurrently.
type Sink interface {
	// Phase reports Initializing and Running.
	Phase(Status) error
	// Output stores the result of one read of a stream, without passwords. It sets the time of entries without one.
	Output(entries []Entry) error
	// Note writes a remark of Waybill's own into the step's log.
	Note(text string) error
	// Artifact keeps what r yields under a name; kind is one of the results' kinds.
	Artifact(name, kind string, executable bool, r io.Reader) error
	// Tests keeps and reads files that report about tests, paths in which may be below the folder
	// workspace. One that cannot be read is kept and noted, without an error.
	Tests(workspace string, files []TestSource) error
}

// Kept is the files that one artifact rule selects.
type Kept struct {
	Rule  ArtifactRule
	Files []string // sorted
	Taken bool     // files match that an earlier rule keeps
}

// Collect decides which of a workspace's files (slash-separated, relative) are
// kept after a step that succeeded or did not. A file that several rules name is
// kept by the first.
func Collect(rules []ArtifactRule, succeeded bool, files []string) []Kept {
	taken := map[string]bool{}
	var out []Kept
	for _, rule := range rules {
		if rule.When == Success && !succeeded || rule.When == Fail && succeeded {
			continue
		}
		kept := Kept{Rule: rule}
		for _, f := range files {
			switch {
			case !MatchGlob(rule.Glob(), f):
			case taken[f]:
				kept.Taken = true
			default:
				taken[f] = true
				kept.Files = append(kept.Files, f)
			}
		}
		slices.Sort(kept.Files)
		out = append(out, kept)
	}
	return out
}
