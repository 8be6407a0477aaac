package show

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
)

// Processes returns the rows of a list of processes.
func Processes(all []service.ProcessOffering) []string {
	var t table
	t.add("PROCESS", "VERSION", "EXECUTED", "TITLE")
	for _, p := range all {
		t.add(p.ID, p.Version, executed(p), p.Title)
	}
	return t.lines()
}

// Process returns a process with its inputs and outputs.
func Process(p service.ProcessOffering) []string {
	lines := []string{fmt.Sprintf("%s  version %s  %s  %s", p.ID, p.Version, executed(p), p.Title)}
	if p.Description != "" {
		for line := range strings.SplitSeq(p.Description, "\n") {
			lines = append(lines, "  "+line)
		}
	}
	var t table
	for _, v := range p.Inputs {
		t.add("  input", v.Name, valueType(v), map[bool]string{true: "required", false: "optional"}[v.Required])
	}
	for _, v := range p.Outputs {
		t.add("  output", v.Name, valueType(v), "")
	}
	return append(lines, t.lines()...)
}

// executed returns in a few words how a process may be executed.
func executed(p service.ProcessOffering) string {
	if slices.Contains(p.Executed, "sync-execute") {
		return "sync or async"
	}
	return "async"
}

// valueType returns a schema's type, which may be a list.
func valueType(v service.ValueView) string {
	switch kind := v.Schema["type"].(type) {
	case string:
		return kind
	case []any:
		return strings.Trim(fmt.Sprint(kind), "[]")
	}
	return "any"
}

// Tokens returns the rows of a list of tokens.
func Tokens(tokens []token.Token, now time.Time) []string {
	var t table
	t.add("TOKEN", "SCOPES", "CREATED", "STATE")
	for _, token := range tokens {
		t.add(token.Name, strings.Join(token.Scopes, ","), Ago(now, token.CreatedAt), TokenState(token, now))
	}
	return t.lines()
}

// TokenState returns whether a token can be used, and since or until when.
func TokenState(token token.Token, now time.Time) string {
	switch {
	case !token.RevokedAt.IsZero():
		return "revoked " + Ago(now, token.RevokedAt)
	case !token.Valid(now):
		return "expired " + Ago(now, token.ExpiresAt)
	case !token.ExpiresAt.IsZero():
		return "good until " + token.ExpiresAt.Local().Format("2006-01-02 15:04 MST")
	}
	return "good"
}
