package buildview

import (
	"regexp"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// buildID matches the name of a build, which is a folder of the home's builds.
var buildID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// Line is one entry of a build's log.
type Line struct {
	Step    string    `json:"step"`
	ID      int64     `json:"logId"`
	At      time.Time `json:"at"`
	Stream  string    `json:"stream"`            // stdout, stderr, or waybill (a message of the worker)
	Partial bool      `json:"partial,omitempty"` // the line continues in the next entry
	Text    string    `json:"text"`              // bytes that are not UTF-8 are replaced
}

// LineOf returns an entry of a step's log in the form that is sent and printed.
func LineOf(step *build.PlanStep, l build.Line) Line {
	return Line{Step: step.Path(), ID: l.ID, At: l.At, Stream: l.Stream(), Partial: l.Partial, Text: l.ValidText()}
}
