package flow

import (
	"net/url"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	mostText    = 1 << 10 // bytes that are kept of a text of another system
	mostMessage = 4 << 10 // bytes of a message, which may have several such texts
)

// A query may be a credential, and so is the user information of a URL.
var (
	queries = regexp.MustCompile("(?i)(https?://[^\\s?\"<>`]*)\\?[^\\s\"<>`]*|\\?[^\\s\"<>`]*=[^\\s\"<>`]*")
	logins  = regexp.MustCompile("(?i)(https?://)[^\\s/?#\"<>`]*@")
)

// Clean returns a text of another system as messages may repeat it: without the queries and the user information of URLs, and
// cut to 1 KiB.
func Clean(text string) string {
	return Cut(logins.ReplaceAllString(queries.ReplaceAllString(text, "$1"), "$1"))
}

// Cut returns a text in valid UTF-8 and cut to 1 KiB.
func Cut(text string) string { return cut(strings.ToValidUTF8(text, "\uFFFD"), mostText) }

// cut returns a text with a number of bytes at most.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most - len("…")
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// withoutQuery returns a URL as a status may show it.
func withoutQuery(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		address, _, _ = strings.Cut(address, "?")
		return Clean(address)
	}
	parsed.User, parsed.RawQuery, parsed.ForceQuery = nil, "", false
	return parsed.String()
}

// hasHost reports whether an address names a host.
func hasHost(address string) bool {
	parsed, err := url.Parse(address)
	return err == nil && parsed.Hostname() != ""
}
