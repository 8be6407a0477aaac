package page

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// Entries is a table of entries of the deployment log, the newest first.
type Entries struct {
	Single bool // all are of one deployment, which has no column
	Rows   []Entry
}

// Entry is a row of the table.
type Entry struct {
	pipeline.Entry
	Text   string // detail in one line
	Output string // address of a step's kept output; "": none
}

// EntriesOf returns the table of entries, which it takes in the order of the log. text returns an
// entry's detail in one line.
func EntriesOf(log []pipeline.Entry, single bool, text func(detail json.RawMessage) string) Entries {
	table := Entries{Single: single}
	for _, e := range slices.Backward(log) {
		row := Entry{Entry: e}
		if len(e.Detail) > 0 {
			row.Text = text(e.Detail)
		}
		if id, attempt, kept := service.KeptOutput(e.Detail); kept {
			row.Output = service.ExchangePath(id, attempt)
		}
		table.Rows = append(table.Rows, row)
	}
	return table
}

// Detail returns an entry's detail in one line.
func Detail(raw json.RawMessage) string {
	return DetailWith(raw, func(text string) string { return text })
}

// DetailWith returns an entry's detail in one line, with why applied to its errors and reasons.
func DetailWith(raw json.RawMessage, why func(string) string) string {
	var fields struct {
		Text, Event, Status, Error, Reason, By, Label, Digest string
		Size                                                  int64
		Deployments                                           []int64 // archived deployments
	}
	if json.Unmarshal(raw, &fields) != nil {
		return string(raw)
	}
	parts := []string{
		fields.Text, pipeline.ArchivedDetail{Deployments: fields.Deployments}.String(), fields.Event, fields.Label,
		strings.ToLower(fields.Status), why(fields.Error), why(fields.Reason),
	}
	if fields.Size > 0 {
		parts = append(parts, service.Size(fields.Size))
	}
	if fields.Digest != "" {
		parts = append(parts, "sha256:"+ShortDigest(fields.Digest))
	}
	if fields.By != "" {
		parts = append(parts, "by "+fields.By)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")
}
