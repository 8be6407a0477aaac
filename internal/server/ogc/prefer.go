package ogc

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// preference is a client's preference for the answer (RFC 7240).
type preference struct {
	async bool
	wait  time.Duration // 0: none
}

// preferenceOf parses the Prefer headers of a request: lists of preferences, whose parameters it
// ignores. The first of repeated preferences counts.
func preferenceOf(r *http.Request) preference {
	var p preference
	waits := false
	for _, header := range r.Header.Values("Prefer") {
		for _, item := range splitUnquoted(header, ',') {
			name, value, _ := strings.Cut(splitUnquoted(item, ';')[0], "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "respond-async":
				p.async = true
			case "wait":
				seconds, err := strconv.Atoi(strings.Trim(value, "\" \t"))
				if err == nil && seconds > 0 && !waits {
					p.wait = time.Duration(min(seconds, mostWaited)) * time.Second
				}
				waits = true
			}
		}
	}
	return p
}

// mostWaited bounds wait in seconds, so that it cannot overflow. The bound of a process is lower.
const mostWaited = 1 << 20

// splitUnquoted splits a header at each separator outside of quotes.
func splitUnquoted(text string, separator byte) []string {
	var parts []string
	start, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quoted:
			i++
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			parts, start = append(parts, text[start:i]), i+1
		}
	}
	return append(parts, text[start:])
}
