package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// printJSON writes a value as one indented document; a nil list is written as [].
func (a *app) printJSON(value any) error { return a.encode(value, "  ") }

// printJSONLine writes a value as one line.
func (a *app) printJSONLine(value any) error { return a.encode(value, "") }

// encode writes a value as JSON, with every character escaped that a terminal would obey.
func (a *app) encode(value any, indent string) error {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	if _, err := io.WriteString(a.out, escapeControls(b.String())); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// list makes a nil slice an empty one, so that JSON shows [] and never null.
func list[T any](items []T) []T {
	if items == nil {
		return []T{}
	}
	return items
}

// table collects rows and prints them with aligned columns, two spaces apart.
type table struct{ rows [][]string }

// add appends a row. A cell is one line: no text makes a row of its own.
func (t *table) add(cells ...string) {
	for i, cell := range cells {
		cells[i] = strings.ReplaceAll(cell, "\n", " ")
	}
	t.rows = append(t.rows, cells)
}

// write prints the rows; nothing stands behind the last cell of a line.
func (t *table) write(w io.Writer) error {
	widths := t.widths()
	for _, row := range t.rows {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " ")); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
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

// ago is how long a moment lies back, in words.
func ago(now, then time.Time) string {
	switch d := now.Sub(then); {
	case d < time.Second:
		return "just now"
	case d < time.Minute:
		return count(int(d.Seconds()), "second") + " ago"
	case d < time.Hour:
		return count(int(d.Minutes()), "minute") + " ago"
	case d < 48*time.Hour:
		return count(int(d.Hours()), "hour") + " ago"
	default:
		return count(int(d.Hours()/24), "day") + " ago"
	}
}

// clock is a moment as people on this machine read it: the time of day, with the date when it is not today's.
func clock(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	then, now = then.Local(), now.Local()
	if then.YearDay() == now.YearDay() && then.Year() == now.Year() {
		return then.Format("15:04:05")
	}
	return then.Format("2006-01-02 15:04")
}

// dash stands for nothing in a table.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
