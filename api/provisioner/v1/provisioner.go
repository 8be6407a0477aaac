// Package provisionerv1 has what a provisioner and its callers send each other as JSON, and the callers' client.
//
// A provisioner starts, lists and ends the workers of builds in one build environment:
//
//	POST   /api/worker             CreateWorker → 201 Worker, 200 if the build has it, 409 if it was given something else
//	GET    /api/worker             → 200 WorkerList
//	DELETE /api/worker/{workerId}  → 204, also when it is gone
//
// Errors are application/problem+json (RFC 7807).
package provisionerv1

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// CreateWorker is the body of POST /api/worker.
type CreateWorker struct {
	BuildID int64  `json:"buildId"`
	Project string `json:"project"` // what the limit per project counts
	// ProjectID names the project's Secrets, as the variable PROJECT_ID: digits. "": the project, if that is a number.
	ProjectID string `json:"projectId,omitempty"`
	Instance  string `json:"instance"`           // label of the instance that has the build
	Nonce     string `json:"nonce"`              // nonce of the build, part of the worker's token
	Revision  string `json:"revision,omitempty"` // what is built, for people

	Repository *Repository `json:"repository,omitempty"` // the files; this or the snapshot
	Snapshot   string      `json:"snapshot,omitempty"`   // key of a snapshot in the blob store
	Earlier    *Earlier    `json:"earlier,omitempty"`    // the build that is resumed; nil: none

	File        string            `json:"file,omitempty"` // "": .wharf-ci.yml
	Environment string            `json:"environment,omitempty"`
	Stages      []string          `json:"stages,omitempty"`
	Inputs      map[string]string `json:"inputs,omitempty"`    // passwords included
	Variables   map[string]string `json:"variables,omitempty"` // as from the environment
}

// Earlier is a build whose steps need not all run again. It comes with a repository.
type Earlier struct {
	BuildID int64  `json:"buildId"`
	Bundle  string `json:"bundle"` // key in the blob store of what its steps have left
}

// Sent returns the key in the blob store of what a worker is given beside the request: a snapshot or a bundle; "": nothing.
func (c CreateWorker) Sent() string {
	if c.Earlier != nil {
		return c.Earlier.Bundle
	}
	return c.Snapshot
}

// Repository is one commit of a repository.
type Repository struct {
	URL          string `json:"url"` // without a password
	Commit       string `json:"commit"`
	Branch       string `json:"branch,omitempty"`
	Subdirectory string `json:"subdirectory,omitempty"` // with the build's file; "": the root
	Credential   string `json:"credential,omitempty"`   // name of credentials that the provisioner has
}

// Worker is one worker. Times are of the provisioner's clock.
type Worker struct {
	WorkerID  string    `json:"workerId"`
	UID       string    `json:"uid,omitempty"` // UID of a pod, by which aggregators share workers; "": they do so by WorkerID
	Name      string    `json:"name"`
	BuildID   int64     `json:"buildId"`
	Project   string    `json:"project,omitempty"`
	Instance  string    `json:"instance"`
	Status    string    `json:"status"`           // Pending, Running, Ended or Unknown, as the platform sees it
	Reason    string    `json:"reason,omitempty"` // why it is not Running
	CreatedAt time.Time `json:"createdAt"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	Address   string    `json:"address,omitempty"` // address of the worker API; "": not known yet
	Key       int       `json:"key"`               // number of the builder key that its token is made of
	DeletedAt time.Time `json:"-"`                 // time of the request to end it; zero: none
}

// WorkerList is the answer to GET /api/worker: one page, ordered by build and worker.
type WorkerList struct {
	Workers  []Worker  `json:"workers"`
	Complete bool      `json:"complete"`         // false: a back end did not answer, and a worker may be missing
	Cursor   string    `json:"cursor,omitempty"` // cursor of the next page; "": this is the last one
	Now      time.Time `json:"now"`              // on the clock of the workers' times
}

// Age returns how long ago a worker of the list was created; 0 if its platform does not say.
func (l WorkerList) Age(w Worker) time.Duration {
	if w.CreatedAt.IsZero() {
		return 0
	}
	return l.Now.Sub(w.CreatedAt)
}

// Waiting reports that a worker must wait for others to end. It is the body of a 429, with Retry-After.
type Waiting struct {
	Running int    `json:"running"`
	Limit   int    `json:"limit"`
	Project string `json:"project,omitempty"` // whose limit it is; "": that of all projects
}

// Launch holds the inputs with which a worker starts. It reaches the worker by a pipe or by a file that only the
// worker can read, never by arguments or labels.
type Launch struct {
	CreateWorker
	Token        string `json:"token"`                  // token that readers of the results need
	SnapshotFile string `json:"snapshotFile,omitempty"` // path of the snapshot
	BundleFile   string `json:"bundleFile,omitempty"`   // path of the bundle of an earlier build
	Push         *Push  `json:"push,omitempty"`         // the snapshot or bundle is sent to the worker API
	Credentials  string `json:"credentials,omitempty"`  // path of a file of git-credential-store
	Clone        string `json:"clone,omitempty"`        // path of the repository, if it was cloned before; the worker takes the folder
	Trace        string `json:"trace,omitempty"`        // W3C traceparent of the request for the worker
}

// PathWorkspace is the path at which a worker receives its snapshot, or with a repository the bundle of the earlier
// build:
//
//	PUT /api/workspace?offset=N  bytes from N on → 200 WorkspaceState
//	GET /api/workspace           → 200 WorkspaceState
//
// An offset that is not Received, or a part after the last one, is 409; more than Size is 413; another digest is 422, and the snapshot
// begins again. Every error is a line of text.
const PathWorkspace = "/api/workspace"

// Push describes a file that is sent to a worker, as it is in the blob store.
type Push struct {
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // 64 hex digits
}

// WorkspaceState reports the received part of a workspace.
type WorkspaceState struct {
	Received int64 `json:"received"` // bytes
	Size     int64 `json:"size"`     // bytes
	Done     bool  `json:"done"`     // all are there, and have the right digest
}

// hexDigest matches a SHA-256.
var hexDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// Check returns every fault of a launch at once (fault.Problems).
func (l Launch) Check() error {
	var to checker
	if p := l.Push; p != nil {
		to.want(l.Sent() != "" && l.SnapshotFile == "" && l.BundleFile == "", "push",
			"want it with a snapshot or earlier, and without snapshotFile and bundleFile")
		to.want(p.Size > 0, "push.size", "want more than zero bytes")
		to.want(hexDigest.MatchString(p.SHA256), "push.sha256", "want 64 hex digits")
	}
	return errors.Join(l.CreateWorker.Check(), to.faults.Err())
}

// Bounds of a request.
const (
	MostBody     = 1 << 20 // bytes of a body
	mostText     = 4096    // bytes of a text, if nothing else is said
	mostValue    = 256 << 10
	mostEntries  = 500 // stages, inputs, variables; each
	mostName     = 100
	shortestSalt = 16
)

// name matches what may be part of a label or a path.
var name = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)

// checker collects the faults of a request.
type checker struct{ faults fault.Problems }

func (c *checker) want(ok bool, field, format string, arguments ...any) {
	if !ok {
		c.faults.Add(fault.Problem{Code: "value-invalid", Scope: field, Text: fmt.Sprintf(format, arguments...)})
	}
}

// text checks a text of free form.
func (c *checker) text(field, text string, most int) {
	c.want(len(text) <= most && plain(text), field, "want at most %d bytes without control characters", most)
}

// values checks names and their values.
func (c *checker) values(field string, values map[string]string) {
	c.want(len(values) <= mostEntries, field, "want at most %d", mostEntries)
	for key, value := range values {
		c.want(key != "" && len(key) <= mostName && plain(key) && !strings.Contains(key, "="), field,
			"want names of 1 to %d bytes, without = and control characters", mostName)
		c.want(len(value) <= mostValue && !strings.Contains(value, "\x00"), field, "want values of at most %d bytes", mostValue)
	}
}

// Check returns every fault of a request at once (fault.Problems). The back end checks the rest of the repository.
func (c CreateWorker) Check() error {
	var to checker
	to.want(c.BuildID > 0, "buildId", "want a number above zero")
	to.text("project", c.Project, mostName)
	to.want(isLocal(strings.ReplaceAll(c.Project, `\`, "/")), "project", "want a name, not a path that leaves a folder")
	to.want(len(c.ProjectID) <= mostName && isNumber(c.ProjectID), "projectId", "want at most %d digits", mostName)
	to.want(isName(c.Instance), "instance", "want at most %d letters, digits, dots, hyphens and underscores", mostName)
	to.want(isName(c.Nonce) && len(c.Nonce) >= shortestSalt, "nonce", "want %d to %d letters and digits", shortestSalt, mostName)
	to.want((c.Repository == nil) != (c.Snapshot == ""), "repository", "want either repository or snapshot")
	for field, text := range map[string]string{"revision": c.Revision, "snapshot": c.Snapshot, "file": c.File, "environment": c.Environment} {
		to.text(field, text, mostText)
	}
	to.want(isLocal(c.File), "file", "want a path inside the workspace")
	if r := c.Repository; r != nil {
		to.text("repository.subdirectory", r.Subdirectory, mostText)
		to.want(isLocal(r.Subdirectory), "repository.subdirectory", "want a path inside the repository")
		to.want(r.Credential == "" || isName(r.Credential), "repository.credential", "want the name of credentials")
	}
	if e := c.Earlier; e != nil {
		to.want(c.Repository != nil, "earlier", "want it with a repository")
		to.want(e.BuildID > 0 && e.BuildID != c.BuildID, "earlier.buildId", "want the number of another build")
		to.want(e.Bundle != "", "earlier.bundle", "want a key of the blob store")
		to.text("earlier.bundle", e.Bundle, mostText)
	}
	to.want(len(c.Stages) <= mostEntries, "stages", "want at most %d", mostEntries)
	for i, stage := range c.Stages {
		to.text(fmt.Sprintf("stages[%d]", i), stage, mostText)
	}
	to.values("inputs", c.Inputs)
	to.values("variables", c.Variables)
	to.faults.Sort()
	return slices.Compact(to.faults).Err()
}

// isNumber reports whether a text has only digits.
func isNumber(text string) bool { return strings.Trim(text, "0123456789") == "" }

// isName reports whether a text may be part of a label or a path.
func isName(text string) bool { return len(text) <= mostName && name.MatchString(text) }

// plain reports whether a text has no control characters.
func plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// isLocal reports whether a slash path stays where it begins; "" does.
func isLocal(text string) bool {
	clean := path.Clean(text)
	return !path.IsAbs(clean) && clean != ".." && !strings.HasPrefix(clean, "../")
}

// Digest returns a digest of the request, by which a repeated one is recognised.
func (c CreateWorker) Digest() (string, error) {
	text, err := json.Marshal(c) // maps are sorted
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
