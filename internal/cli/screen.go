package cli

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"

	"github.com/waybill-dev/waybill/internal/build"
)

// screen draws a few lines at the bottom of a terminal again and again, in place. What was printed before scrolls
// up as usual; no alternate screen is used, so the last state stays when the program ends.
type screen struct {
	file  *os.File
	drawn int // lines of the last frame
}

// size is the terminal's columns and rows; 80 by 24 when it does not say.
func (s *screen) size() (columns, rows int) {
	columns, rows, err := term.GetSize(int(s.file.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 80, 24
	}
	return columns, rows
}

// columnsOf is the width of an output; 0 when it is no terminal, so that nothing is cut.
func columnsOf(stream any) int {
	file, ok := terminalOf(stream)
	if !ok {
		return 0
	}
	columns, _ := (&screen{file: file}).size()
	return columns
}

// draw replaces the last frame by these lines, none of which may be wider than the terminal.
func (s *screen) draw(lines []string) error {
	var b strings.Builder
	b.WriteString("\x1b[?25l\r")
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", s.drawn)
	}
	for _, line := range lines {
		line = strings.ReplaceAll(line, "\n", " ") // a frame has the lines that it was drawn for
		b.WriteString(closed(build.Printable(line, isOurs)) + "\x1b[K\n")
	}
	b.WriteString("\x1b[J\x1b[?25h")
	s.drawn = len(lines)
	_, err := s.file.WriteString(b.String())
	return err
}

// leave ends a frame: what is printed next stands below it.
func (s *screen) leave() { s.drawn = 0 }
