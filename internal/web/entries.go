package web

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

// detail returns an entry's detail in one line.
func detail(raw json.RawMessage) string {
	return detailWith(raw, func(text string) string { return text })
}

// detailWith returns an entry's detail in one line, with why applied to its errors and reasons.
func detailWith(raw json.RawMessage, why func(string) string) string {
	var fields struct {
		Text, Event, Status, Error, Reason, By, Label, Digest string
		Size                                                  int64
		Deployments                                           []int64 // that were archived
	}
	if json.Unmarshal(raw, &fields) != nil {
		return string(raw)
	}
	parts := []string{fields.Text, pipeline.ArchivedDetail{Deployments: fields.Deployments}.String(), fields.Event, fields.Label, strings.ToLower(fields.Status), why(fields.Error), why(fields.Reason)}
	if fields.Size > 0 {
		parts = append(parts, server.Size(fields.Size))
	}
	if fields.Digest != "" {
		parts = append(parts, "sha256:"+shortDigest(fields.Digest))
	}
	if fields.By != "" {
		parts = append(parts, "by "+fields.By)
	}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " · ")
}

// outputOf returns the path of what a step has printed, by the detail of its fact; "" if nothing was kept.
func outputOf(raw json.RawMessage) string {
	if id, attempt, kept := server.KeptOutput(raw); kept {
		return server.ExchangePath(id, attempt)
	}
	return ""
}

func newestFirst(entries []pipeline.Entry) []pipeline.Entry {
	turned := slices.Clone(entries)
	slices.Reverse(turned)
	return turned
}
