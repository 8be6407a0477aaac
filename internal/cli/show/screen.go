package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
)

// FrameEvery is the time between two frames of a live view.
const FrameEvery = 100 * time.Millisecond

// Screen draws a few lines at the bottom of a terminal again and again, in place. Earlier output scrolls up as usual;
// no alternate screen is used, so the last state stays when the program ends.
type Screen struct {
	Out   io.Writer
	Size  func() (columns, rows int)
	drawn []int // widths of the lines of the last frame
}

// draw replaces the last frame by these lines, none of which may be wider than the terminal.
func (s *Screen) draw(lines []string) error {
	var b strings.Builder
	b.WriteString("\x1b[?25l\r")
	if up := s.rows(); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	s.drawn = s.drawn[:0]
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\n", " ") // a frame has the lines that it was drawn for
		line = EndColours(build.Printable(line, isOurs))
		b.WriteString(line + "\x1b[K\n")
		s.drawn = append(s.drawn, printedWidth(line))
	}
	b.WriteString("\x1b[J\x1b[?25h")
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// rows returns how many rows of the terminal the last frame takes. On one that has become narrower since, lines are wrapped.
func (s *Screen) rows() (rows int) {
	columns := 0
	if s.Size != nil {
		columns, _ = s.Size()
	}
	for _, width := range s.drawn {
		rows++
		if columns > 0 && width > columns {
			rows += (width - 1) / columns
		}
	}
	return rows
}

// leave ends a frame: further output is below it.
func (s *Screen) leave() { s.drawn = nil }
