package build

import "time"

// Update is one status of a step, or of the build when the step is 0.
type Update struct {
	ID        int64     `json:"updateId"` // counts over the whole build
	Step      int       `json:"-"`        // set by those that store or read it
	Timestamp time.Time `json:"timestamp"`
	Status    Status    `json:"status"`
	Attempt   int       `json:"attempt,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	ExitCode  *int      `json:"exitCode,omitempty"`
	Trailer   *Trailer  `json:"trailer,omitempty"` // trailer of an end
	Final     *Final    `json:"final,omitempty"`   // final marker of the build's end
}

// Trailer is the expected end of a step's log.
type Trailer struct {
	Entries int64  `json:"entries"`
	Bytes   int64  `json:"bytes"`
	SHA256  string `json:"sha256"`
}

// Final is the expected end of the whole build.
type Final struct {
	Steps     int   `json:"steps"` // step 0 aside
	Events    int64 `json:"events"`
	Artifacts int   `json:"artifacts"`
}

// End returns the place at which the log ends.
func (t Trailer) End() Position { return Position{t.Entries, t.Bytes} }
