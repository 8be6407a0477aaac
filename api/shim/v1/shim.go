// Package shimv1 is what the worker of a build and the shims in a step's pod agree on: the paths of
// their HTTP and the environment of the shims.
//
// The init container runs "waybill shim init": it receives the workspace and ends. Then the container of the step
// runs "waybill shim exec -- ARGV", which writes the output of the program into a spool (build.SpoolRecord), and the
// container of the results runs "waybill shim serve", which serves it. Every request carries the pod's token, as
// "Authorization: Bearer TOKEN".
package shimv1

import "time"

// Port is the port on which the init container and later the container of the results listen.
const Port = 5011

// Silence bounds the absence of the worker, unless EnvSilence sets another bound: a computer that was closed does not
// come back to a build.
const Silence = 10 * time.Minute

// Paths of the init container.
const (
	PathUpload = "/v1/upload" // GET: Offset, the bytes received; PUT ?offset=N: more from there, 409 with an Offset if N is not the next one
	PathUnpack = "/v1/unpack" // POST ?digest=SHA256: unpack what was uploaded, check its tar, end
)

// Paths of the container of the results.
const (
	PathOutput = "/v1/output" // GET ?offset=N: the spool from a byte on, until it ends; with &follow=false what there is
	// GET ?file=GLOB…: a snapshot of the workspace's files that match; with ?part=PATH… of all that belongs there, links
	// included
	PathFiles   = "/v1/files"
	PathAlive   = "/v1/alive"   // POST: the worker lives
	PathStop    = "/v1/stop"    // POST: end the step's program: SIGTERM, and SIGKILL after the grace
	PathRelease = "/v1/release" // POST: everything was read; the container ends
)

// Offset is the number of bytes of the workspace's snapshot that have arrived.
type Offset struct {
	Offset int64 `json:"offset"`
}

// Environment variables of the shims. The step's program gets none of these.
const (
	EnvPrefix   = "WAYBILL_SHIM_"
	EnvListen   = "WAYBILL_SHIM_LISTEN"   // address; default: all, at Port
	EnvToken    = "WAYBILL_SHIM_TOKEN"    // init and serve; not for exec
	EnvFolder   = "WAYBILL_SHIM_FOLDER"   // what the shims share; default: Folder
	EnvRepo     = "WAYBILL_SHIM_REPO"     // the workspace; default: Repo
	EnvGrace    = "WAYBILL_SHIM_GRACE"    // duration between SIGTERM and SIGKILL
	EnvSilence  = "WAYBILL_SHIM_SILENCE"  // duration without the worker after which the program is ended
	EnvCommands = "WAYBILL_SHIM_COMMANDS" // commands with passwords: a file with these becomes the program's last argument
	EnvSecrets  = "WAYBILL_SHIM_SECRETS"  // names of variables, separated by commas, whose values are masked
	EnvMounted  = "WAYBILL_SHIM_MOUNTED"  // folders, separated by commas, whose files are masked
	EnvServices = "WAYBILL_SHIM_SERVICES" // JSON, a list of Service
)

// Environment variables of "waybill shim clone", the init container of a worker's pod.
const (
	EnvCloneURL         = "WAYBILL_CLONE_URL"
	EnvCloneCommit      = "WAYBILL_CLONE_COMMIT"
	EnvCloneBranch      = "WAYBILL_CLONE_BRANCH"
	EnvCloneCredentials = "WAYBILL_CLONE_CREDENTIALS" //nolint:gosec // path of a file of git-credential-store
	EnvCloneFolder      = "WAYBILL_CLONE_FOLDER"
)

// CloneError is appended to the clone's folder: a file that says why the clone is missing.
const CloneError = ".error"

// MostCloneError bounds that file, in bytes.
const MostCloneError = 64 << 10

// Places in the containers.
const (
	Folder  = "/mnt/waybill"
	Repo    = "/mnt/repo"
	Program = "waybill" // in Folder; what init leaves for the step's container
)

// Service is a service of a step that exec waits for.
type Service struct {
	Name    string `json:"name"`
	Ports   []int  `json:"ports"`
	Seconds int    `json:"seconds"` // how long at most
}
