package cmdline

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/waybill-dev/waybill/internal/cli/show"
)

// TerminalOf returns the file behind a stream when that is a terminal.
func TerminalOf(stream any) (*os.File, bool) {
	if w, ok := stream.(io.Writer); ok {
		stream = show.Ungated(w)
	}
	f, ok := stream.(*os.File)
	return f, ok && term.IsTerminal(int(f.Fd()))
}

// OnTerminal reports whether a stream is read or written by a person.
func OnTerminal(stream any) bool {
	_, ok := TerminalOf(stream)
	return ok
}

// sizeOf returns the columns and rows of a terminal; 80 by 24 when it does not report them.
func sizeOf(terminal *os.File) (columns, rows int) {
	columns, rows, err := term.GetSize(int(terminal.Fd()))
	if err != nil || columns < 1 || rows < 1 {
		return 80, 24
	}
	return columns, rows
}

// Printer returns how this command line prints. There are colours on a terminal, unless NO_COLOR is set or the terminal
// is a dumb one.
func (a *App) Printer() show.Printer {
	p := show.Printer{Out: a.Out, Err: a.Err, JSON: a.JSON()}
	file, ok := TerminalOf(a.Out)
	if !ok {
		return p
	}
	p.Columns, _ = sizeOf(file)
	p.Style.Columns = p.Columns
	if a.Environment("TERM") == "dumb" {
		return p
	}
	p.Style.Colours = a.Environment("NO_COLOR") == ""
	p.Screen = &show.Screen{Out: file, Size: func() (int, int) { return sizeOf(file) }}
	return p
}
