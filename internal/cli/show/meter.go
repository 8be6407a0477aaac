package show

import (
	"fmt"
	"io"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
)

// Meter reads from another reader and shows in place, on a terminal, how much of it has been read.
type Meter struct {
	from   io.Reader
	screen *Screen // nil: nothing is shown
	what   string
	total  int64 // bytes
	done   int64
	drawn  time.Time
}

// NewMeter returns a meter of a reader of total bytes; what names the operation.
func NewMeter(p Printer, what string, total int64, from io.Reader) *Meter {
	m := &Meter{from: from, what: what, total: total, drawn: time.Now()}
	if !p.JSON {
		m.screen = p.Screen
	}
	return m
}

// Read reads, and draws at most one frame in FrameEvery. A transfer that is over at once shows nothing.
func (m *Meter) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	m.done += int64(n)
	if now := time.Now(); m.screen != nil && now.Sub(m.drawn) >= FrameEvery {
		m.drawn = now
		_ = m.screen.draw([]string{meterText(m.what, m.done, m.total)}) // the result is printed, or that fails too
	}
	return n, err
}

// Close removes the last frame.
func (m *Meter) Close() {
	if m.screen != nil && len(m.screen.drawn) > 0 {
		_ = m.screen.draw(nil)
	}
}

func meterText(what string, done, total int64) string {
	return fmt.Sprintf("  %s  %s of %s  %d %%", what, service.Size(done), service.Size(total), done*100/max(total, 1))
}
