package show

import (
	"io"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
)

// gate is in front of everything that this program prints: text that others wrote, such as the output of a service,
// reaches a terminal, a pipe or a file without sequences that a terminal obeys. On a terminal the colours of style
// pass.
type gate struct {
	w      io.Writer
	colour func(parameters string) bool // decides which colours pass; nil: none
}

// NewGate returns a gate in front of an output.
func NewGate(w io.Writer, terminal bool) *gate {
	if terminal {
		return &gate{w, isOurs}
	}
	return &gate{w, nil}
}

// isOurs reports whether the parameters of a colour are among those that style uses.
func isOurs(parameters string) bool {
	return slices.Contains([]string{"0", "1", "2", "31", "32", "33", "36"}, parameters)
}

// Write prints whole texts: every caller writes at least a line at a time.
func (g *gate) Write(p []byte) (int, error) {
	if _, err := io.WriteString(g.w, EndColours(build.Printable(string(p), g.colour))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// EndColours ends a colour that text has begun and not ended, so that it does not run on.
func EndColours(text string) string {
	const end = "\x1b[0m"
	last := strings.LastIndex(text, "\x1b[")
	if last < 0 || strings.HasPrefix(text[last:], end) {
		return text
	}
	line, isLine := strings.CutSuffix(text, "\n")
	if isLine {
		return line + end + "\n"
	}
	return text + end
}

// Ungated returns the output behind a gate, for output that the user wants unchanged.
func Ungated(w io.Writer) io.Writer {
	if g, ok := w.(*gate); ok {
		return g.w
	}
	return w
}

// escapeControls writes the characters that a terminal obeys, and that JSON may hold as they are, as \u and four digits.
func escapeControls(document string) string {
	if build.Printable(document, nil) == document {
		return document
	}
	var b strings.Builder
	for _, r := range document {
		if text := string(r); build.Printable(text, nil) != text {
			const digits = "0123456789abcdef"
			b.WriteString(`\u`)
			for shift := 12; shift >= 0; shift -= 4 {
				b.WriteByte(digits[r>>shift&0xf])
			}
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// LogText returns how a piece of a log is printed: without sequences that a terminal obeys. With colours, any colour
// passes, since the user wants the log itself.
func LogText(colours bool) func([]byte) string {
	var keep func(string) bool
	if colours {
		keep = build.IsColour
	}
	return func(text []byte) string { return EndColours(build.VisibleColours(text, keep)) }
}
