package build

import (
	"path"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// File is a parsed .wharf-ci.yml. Its variables are not yet replaced.
type File struct {
	Inputs       []Input
	Environments []Environment
	Stages       []Stage // in file order

	root   *document.Node
	faulty bool // it has faults, so that parts may be missing here
}

// Environment is a named set of variables.
type Environment struct {
	Name   string
	At     fault.Position
	Values map[string]Value
}

// Stage is steps side by side. Stages run one after another.
type Stage struct {
	Name         string
	At           fault.Position
	Environments []string // none: the stage always runs
	RunsIf       Condition
	FailFast     bool
	Steps        []Step // in file order
}

// Condition is the result of earlier stages that a stage requires.
type Condition string

// The conditions.
const (
	Success Condition = "success" // none failed
	Fail    Condition = "fail"    // one failed
	Always  Condition = "always"
)

// Step is one program to run.
type Step struct {
	Name      string
	Key       string         // its name in the file, which the combinations of a matrix have in common
	At        fault.Position // position of its name
	Type      string
	Container Container     // container of a step of type container
	Spec      Spec          // what it comes to; the zero value before variables are replaced
	Needs     []Need        // what it waits for; nil: all earlier stages
	Retry     *Retry        // nil: one attempt
	Timeout   time.Duration // bounds an attempt; 0: no bound
	Artifacts []ArtifactRule
	Cache     []CacheRule
	Secrets   []SecretName
	Tests     *TestRules // nil: none

	matrix Source         // the values of its combination
	lacks  fault.Problems // what the step needs if it is selected
}

// Container is the fields of the step type container.
type Container struct {
	Image    string
	Commands []string
	OS       string
	Shell    string
}

// ArtifactRule selects the files of a step's workspace that are kept.
type ArtifactRule struct {
	Path    string    `json:"path"`           // glob, slash-separated, from the root of the workspace; see Glob
	Name    string    `json:"name,omitempty"` // instead of the file's path
	Archive bool      `json:"archive,omitempty"`
	When    Condition `json:"when"`
}

// Glob returns the glob that the rule's files match. A path without wildcards, and one with a slash at its end, may be that of a folder,
// all of whose files it means.
func (r ArtifactRule) Glob() string {
	if strings.ContainsAny(r.Path, `*?[\`) && !strings.HasSuffix(r.Path, "/") {
		return r.Path
	}
	return path.Join(r.Path, "**")
}
