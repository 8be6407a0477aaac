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
	text := decodeHeader(value)
	if err := check(name, text); err != nil && check(name, value) == nil {
		text = value // an address that was not encoded once more
	}
	return e.set(name, text)
}

// decodeHeader returns the text that the value of a header encodes: without double quotes around it, and percent-decoded once. Only old
// senders write quotes (RFC 7230, section 3.2.6). Some senders encode nothing: characters outside of ASCII, a percent sign without
// digits and quotes inside a value, which an encoded value cannot have, are read literally.
func decodeHeader(value string) string {
	value = strings.Trim(value, " \t")
	if text, ok := unquote(value); ok {
		value = text
	}
	return decodePercent(value)
}

// unquote returns the text of a quoted string, with each backslash replaced by the character after it; false for any other value.
func unquote(quoted string) (string, bool) {
	inner, opened := strings.CutPrefix(quoted, `"`)
	if !opened {
		return "", false
	}
	var text strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"':
			return text.String(), i == len(inner)-1
		case c == '\\' && i < len(inner)-1:
			i++
			text.WriteByte(inner[i])
		default:
			text.WriteByte(c)
		}
	}
	return "", false
}

// decodePercent replaces each %xy by its byte. The text may then be invalid UTF-8, which set refuses.
func decodePercent(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	decoded := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		if text[i] == '%' {
			if octet, err := hex.DecodeString(text[i+1 : min(i+3, len(text))]); err == nil && len(octet) == 1 {
				decoded = append(decoded, octet[0])
				i += 2
				continue
			}
		}
		decoded = append(decoded, text[i])
	}
	return string(decoded)
}
