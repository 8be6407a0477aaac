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

// Screen draws a few lines at the bottom of a terminal again and again, in place. What was printed before scrolls
// up as usual; no alternate screen is used, so the last state stays when the program ends.
type Screen struct {
	Out   io.Writer
	Size  func() (columns, rows int)
	drawn int // lines of the last frame
}

// draw replaces the last frame by these lines, none of which may be wider than the terminal.
func (s *Screen) draw(lines []string) error {
	var b strings.Builder
	b.WriteString("\x1b[?25l\r")
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\n", " ") // a frame has the lines that it was drawn for
		b.WriteString(EndColours(build.Printable(line, isOurs)) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?25h")
	s.drawn = len(lines)
	_, err := io.WriteString(s.Out, b.String())
	return err
}

// leave ends a frame: what is printed next is below it.
func (s *Screen) leave() { s.drawn = 0 }
