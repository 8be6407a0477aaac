package attempt

import (
	"fmt"
	"strings"
	"sync"

	"github.com/waybill-dev/waybill/internal/build"
)

// Prefixed writes the output of a service into the step's log, each line after the service's name, and remembers the
// last ones.
type Prefixed struct {
	build.Sink
	name string

	mu   sync.Mutex
	last []string
}

// NewPrefixed returns a sink for the output of a service.
func NewPrefixed(sink build.Sink, name string) *Prefixed { return &Prefixed{Sink: sink, name: name} }

// tailLines is the number of lines that are shown of a service that did not become ready.
const tailLines = 10

// Output writes lines of the service.
func (p *Prefixed) Output(entries []build.Entry) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]build.Entry, len(entries))
	for i, e := range entries {
		// A part of a line is a line here: the step may print between two parts.
		out[i].Text, out[i].Stderr = fmt.Appendf(nil, "%s | %s", p.name, e.Text), e.Stderr
		p.last = append(p.last, build.VisibleText(out[i].Text[:min(len(out[i].Text), 1000)]))
	}
	p.last = p.last[max(0, len(p.last)-tailLines):]
	return p.Sink.Output(out)
}

// Tail returns the last lines, each on a line of its own after a newline.
func (p *Prefixed) Tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last) == 0 {
		return ""
	}
	return ":\n" + strings.Join(p.last, "\n")
}
