package show

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/service"
)

// Printer prints the answer of a command: as text for people, or as JSON in a form that stays.
type Printer struct {
	Out, Err io.Writer
	JSON     bool
	Style    Style   // style of Out
	Columns  int     // width of Out; 0: nothing is cut
	Screen   *Screen // Out when it is a terminal that can move its cursor, else nil
}

// Answer prints a value as one JSON document, or the lines that show it.
func (p Printer) Answer(value any, lines ...string) error {
	if p.JSON {
		return p.Document(value)
	}
	return p.Lines(lines...)
}

// Lines prints lines of text.
func (p Printer) Lines(lines ...string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.Out, line); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// Warn prints a line on the standard error, whatever the form of the output is.
func (p Printer) Warn(format string, arguments ...any) {
	fmt.Fprintf(p.Err, format+"\n", arguments...)
}

// Note prints a remark: with the text, or on the standard error beside JSON.
func (p Printer) Note(format string, arguments ...any) {
	out := p.Out
	if p.JSON {
		out = p.Err
	}
	fmt.Fprintf(out, format+"\n", arguments...)
}

// List prints items as JSON or as lines. For people an empty list is the remark none on the standard error.
func List[T any](p Printer, items []T, none string, lines func([]T) []string) error {
	switch {
	case p.JSON:
		return p.Document(Items(items))
	case len(items) == 0:
		p.Warn("%s", none)
		return nil
	}
	return p.Lines(lines(items)...)
}

// NextPage names, for people, the way to the rows after a page that is full. last is the value of --after for them.
func (p Printer) NextPage(rows, limit int, last string) {
	if !p.JSON && rows == limit {
		p.Warn("these are the first %d; for the next ones: --after %s", rows, last)
	}
}

// Document prints a value as one indented JSON document.
func (p Printer) Document(value any) error { return p.encode(value, "  ") }

// Line prints a value as one line of JSON.
func (p Printer) Line(value any) error { return p.encode(value, "") }

// encode writes a value as JSON, with every character escaped that a terminal would obey.
func (p Printer) encode(value any, indent string) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if _, err := io.WriteString(p.Out, escapeControls(b.String())); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Items makes a nil slice an empty one, so that JSON shows [] and never null.
func Items[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// table collects rows and aligns their columns, two spaces apart.
type table struct {
	Style // decides whether long names are shortened
	rows  [][]string
}

// add appends a row. A cell is one line: text cannot forge a row of its own.
func (t *table) add(cells ...string) {
	for i, cell := range cells {
		if cell = strings.ReplaceAll(cell, "\n", " "); !strings.Contains(cell, " ") { // else it is text
			cell = t.shortName(cell)
		}
		cells[i] = cell
	}
	t.rows = append(t.rows, cells)
}

// addText adds a text of others under a name; nothing if there is none.
func (t *table) addText(name, text string) {
	if text != "" {
		t.add(name, OneLine(text))
	}
}

// lines returns the rows without spaces at their ends.
func (t *table) lines() []string {
	widths := t.widths()
	lines := make([]string, len(t.rows))
	for i, row := range t.rows {
		var b strings.Builder
		for j, cell := range row {
			b.WriteString(cell)
			if j < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+2))
			}
		}
		lines[i] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

func (t *table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// In returns the time until a moment, such as "in 2h0m0s".
func In(now, then time.Time) string {
	if d := then.Sub(now); d > 0 {
		return "in " + service.Took(d)
	}
	return "now"
}

// Ago returns the time since a moment, in words; "-" for none.
func Ago(now, then time.Time) string {
	switch d := now.Sub(then); {
	case then.IsZero():
		return "-"
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return Count(int(d.Seconds()), "second") + " ago"
	case d < time.Hour:
		return Count(int(d.Minutes()), "minute") + " ago"
	case d < 48*time.Hour:
		return Count(int(d.Hours()), "hour") + " ago"
	default:
		return Count(int(d.Hours()/24), "day") + " ago"
	}
}

// Clock returns a moment in the time zone of this machine, which it names: the time of day, with the date when it is not today's.
func Clock(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return rowClock(now, then) + then.Local().Format(" MST")
}

// rowClock returns what Clock does without the zone, for rows that all begin with their time.
func rowClock(now, then time.Time) string {
	then, now = then.Local(), now.Local()
	if then.YearDay() == now.YearDay() && then.Year() == now.Year() {
		return then.Format("15:04:05")
	}
	return then.Format("2006-01-02 15:04")
}

// dash returns the mark of an empty cell in a table for an empty text.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// Count returns a number with its noun: 1 problem, 3 problems.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "s") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
