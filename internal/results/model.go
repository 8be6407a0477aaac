package results

import (
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// Build is build.json: what is run, and from what.
type Build struct {
	ID        string      `json:"buildId"`
	Plan      *build.Plan `json:"plan"`
	Source    string      `json:"source,omitempty"`    // the folder that was built
	Branch    string      `json:"branch,omitempty"`    // branch of the workspace; "": not known
	Commit    string      `json:"commit,omitempty"`    // commit of the workspace; "": not known
	Subject   string      `json:"subject,omitempty"`   // subject of the commit
	Workspace string      `json:"workspace,omitempty"` // SHA-256 of the tar in workspace.tar.zst; "": the folder was copied without it
	Runner    string      `json:"runner"`
	RerunOf   string      `json:"rerunOf,omitempty"` // id of the build that this one repeats or resumes
	Version   string      `json:"version"`           // version of the program
	StartedAt time.Time   `json:"startedAt"`
	Given     Given       `json:"given,omitzero"`
	Process   Process     `json:"process,omitzero"` // process that runs it; zero: not known
}

// Process is one run of a program on this machine, as command.Instance has it.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"`
}

// Worker is worker.json: where the process that runs the build serves its results.
type Worker struct {
	Address string `json:"address"`         // http://127.0.0.1:40123
	Token   string `json:"token,omitempty"` // "": in a file that the caller of the worker named
	PID     int    `json:"pid"`
}

// Given is a person's request for a build, without passwords.
type Given struct {
	Folder      string            `json:"folder,omitempty"` // full path; "": a snapshot or a commit was built
	Flags       []string          `json:"flags,omitempty"`  // the flags of waybill run that have no field here, as --name=value
	File        string            `json:"file"`
	Environment string            `json:"environment,omitempty"`
	Stages      []string          `json:"stages,omitempty"`
	Steps       []string          `json:"steps,omitempty"` // stage/step
	Inputs      map[string]string `json:"inputs,omitempty"`
	Passwords   []string          `json:"passwords,omitempty"` // names of inputs whose values are not kept
}

// Why nothing more can be written to a step's log.
var (
	ErrDiskFull = errors.New("ResultsDiskFull: the disk that holds the results is full")
	ErrLogLimit = errors.New("LogLimit: the log of the step is larger than allowed")
)
