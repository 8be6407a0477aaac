package cloudevent

import (
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	contentType  = "Content-Type"
	headerPrefix = "ce-" // prefix of the headers with attributes
)

// readBinary reads an event in binary mode: attributes are headers, the body is the data and Content-Type is its type.
func readBinary(h http.Header, body []byte) (e Event, err error) {
	seen := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(h)) {
		name, ok := strings.CutPrefix(strings.ToLower(key), headerPrefix)
		if !ok {
			continue
		}
		if seen[name] || len(h[key]) > 1 {
			return Event{}, wrong(name, errors.New("the header is repeated"))
		}
		seen[name] = true
		for _, value := range h[key] {
			if err := e.setHeader(name, value); err != nil {
				return Event{}, err
			}
		}
	}
	if media := h.Values(contentType); len(media) == 1 {
		if err := e.set("datacontenttype", strings.TrimSpace(media[0])); err != nil {
			return Event{}, err
		}
	}
	if err := e.complete(); err != nil {
		return Event{}, err
	}
	if len(body) == 0 {
		return e, nil
	}
	return e, e.setBytes(body, formBinary)
}

// setHeader sets an attribute to the value of its header.
func (e *Event) setHeader(name, value string) error {
	if name == "datacontenttype" {
		return wrong(name, errors.New("in binary mode it is the header "+contentType+" alone"))
	}
	if name == dataName {
		return wrong(name, errors.New("in binary mode the body is the data"))
	}
	text, err := decodeHeader(value)
	if err != nil {
		return wrong(name, err)
	}
	return e.set(name, text)
}

// Faults of the value of a header.
var (
	errRaw     = errors.New("a character outside of printable ASCII is not percent-encoded")
	errQuote   = errors.New("a double quote is neither percent-encoded nor around the whole value")
	errPercent = errors.New("% is not followed by two hexadecimal digits")
)

// decodeHeader returns the text that the value of a header encodes: without double quotes around it, and
// percent-decoded once. Only old senders write quotes (RFC 7230, section 3.2.6).
func decodeHeader(value string) (string, error) {
	value = strings.Trim(value, " \t")
	if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return "", errRaw
	}
	if strings.Contains(value, `"`) {
		var err error
		if value, err = unquote(value); err != nil {
			return "", err
		}
	}
	return decodePercent(value)
}

// unquote returns the text of a quoted string, with each backslash replaced by the character after it.
func unquote(quoted string) (string, error) {
	inner, opened := strings.CutPrefix(quoted, `"`)
	if !opened {
		return "", errQuote
	}
	var text strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"' && i == len(inner)-1:
			return text.String(), nil
		case c == '"':
			return "", errQuote
		case c == '\\' && i < len(inner)-1:
			i++
			text.WriteByte(inner[i])
		default:
			text.WriteByte(c)
		}
	}
	return "", errQuote
}

// decodePercent replaces each %xy by its byte. The text may then be invalid UTF-8, which set refuses.
func decodePercent(text string) (string, error) {
	if !strings.Contains(text, "%") {
		return text, nil
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			decoded = append(decoded, text[i])
			continue
		}
		octet, err := hex.DecodeString(text[i+1 : min(i+3, len(text))])
		if err != nil || len(octet) != 1 {
			return "", errPercent
		}
		decoded = append(decoded, octet...)
		i += 2
	}
	return string(decoded), nil
}
