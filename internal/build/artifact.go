package build

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/waybill-dev/waybill/internal/testresult"
)

// Artifact is one file that a step yielded.
type Artifact struct {
	ID     int    `json:"artifactId"` // counts over the whole build
	Step   int    `json:"-"`
	Name   string `json:"name"`
	Path   string `json:"path"`   // path of its bytes: in the folder of the step's results, or as a key of the blob store
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // 64 hex digits
	Kind   string `json:"kind"`   // file | archive | junit | trx

	Executable bool `json:"executable,omitempty"` // the file was
}

// Kinds of artifacts. A file of test results that no rule for artifacts keeps has its format as kind.
const (
	KindFile    = "file"
	KindArchive = "archive"
)

// OfTests reports whether the artifact is kept for its test results alone.
func (a Artifact) OfTests() bool {
	return a.Kind == string(testresult.JUnit) || a.Kind == string(testresult.TRX)
}

// DigestBytes returns the 32 bytes of a SHA-256 in hex digits; nil if the text is not one.
func DigestBytes(digits string) []byte {
	if sum, err := hex.DecodeString(digits); err == nil && len(sum) == sha256.Size {
		return sum
	}
	return nil
}

// TestFile is the report of one file of a step about tests.
type TestFile struct {
	Artifact int               `json:"artifactId"` // its bytes
	Step     int               `json:"-"`
	Name     string            `json:"name"` // its path in the workspace
	Format   testresult.Format `json:"format"`
	testresult.Report
	Problem *testresult.Error `json:"problem,omitempty"` // why it cannot be read; then it reports nothing
}
