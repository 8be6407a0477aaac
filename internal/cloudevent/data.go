package cloudevent

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waybill-dev/waybill/internal/fault"
)

// formOf returns the form of data by its type, and whether the charset of that type can be read as text. Data without
// a type has the form that the mode gives it.
func (e *Event) formOf(untyped form) (f form, readable bool) {
	if e.DataContentType == "" {
		return untyped, true
	}
	media, parameters, _ := mime.ParseMediaType(e.DataContentType) // set has checked it
	kind, subtype, _ := strings.Cut(media, "/")
	switch {
	case subtype == "json" || strings.HasSuffix(subtype, "+json"):
		return formJSON, true
	case kind == "text":
		return formText, isUnicode(parameters)
	}
	return formBinary, true
}

// setBytes sets the data to bytes that are encoded as their type requires. untyped is the form without a type.
func (e *Event) setBytes(data []byte, untyped form) error {
	f, readable := e.formOf(untyped)
	switch {
	case f == formJSON:
		if err := checkJSON(data); err != nil {
			return fault.New(fault.Invalid, "data: %w", err)
		}
	case f == formText && !readable:
		return fault.New(fault.BadMediaType, "data: the charset of the text is not supported: want UTF-8")
	case f == formText && !utf8.Valid(data):
		return fault.New(fault.Invalid, "data: the text is not valid UTF-8")
	}
	e.form, e.data = f, data
	return nil
}

// setData sets the data of an event in JSON: by one of two members, of which the other is nil. Without a type it is
// JSON.
func (e *Event) setData(value, encoded jsontext.Value) error {
	switch {
	case value != nil && encoded != nil:
		return fault.New(fault.Invalid, "the event has both %q and %q", dataName, base64Name)
	case encoded != nil:
		return e.setEncoded(encoded)
	case value == nil:
		return nil
	}
	f, _ := e.formOf(formJSON)
	switch {
	case f == formJSON:
		if err := checkDepth(value); err != nil {
			return fault.New(fault.Invalid, "data: %w", err)
		}
		e.form, e.data = formJSON, value
		return nil
	case value.Kind() == 'n': // only JSON knows null
		return nil
	case value.Kind() != '"':
		return fault.New(fault.Invalid, "data: want a string, as its type is not JSON")
	}
	text, err := jsontext.AppendUnquote(nil, value)
	if err != nil {
		return fault.New(fault.Invalid, "data: %w", err)
	}
	e.form, e.data = f, text
	return nil
}

// setEncoded sets the data to bytes in base64 (RFC 4648, section 4), as a JSON string.
func (e *Event) setEncoded(encoded jsontext.Value) error {
	if encoded.Kind() != '"' {
		return fault.New(fault.Invalid, "%s: not a string", base64Name)
	}
	text, err := jsontext.AppendUnquote(nil, encoded)
	if err != nil {
		return fault.New(fault.Invalid, "%s: %w", base64Name, err)
	}
	data, err := base64.StdEncoding.Strict().AppendDecode(nil, text)
	if err != nil || bytes.ContainsAny(text, "\r\n") { // the decoder skips these
		return fault.New(fault.Invalid, "%s: not base64", base64Name)
	}
	return e.setBytes(data, formJSON)
}

// checkJSON returns the fault of a text that is not one valid JSON value within MaxDepth; nil without one.
func checkJSON(text []byte) error {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(text))
	if _, err := decoder.ReadValue(); err != nil {
		return unreadable(err)
	}
	if err := atEnd(decoder); err != nil {
		return err
	}
	return checkDepth(text)
}

// errDeep is the fault of data that is nested too deep.
var errDeep = fmt.Errorf("more than %d levels deep", MaxDepth)

// checkDepth returns errDeep for a valid JSON text with more than MaxDepth levels of objects and lists.
func checkDepth(valid []byte) error {
	level, quoted := 0, false
	for i := 0; i < len(valid); i++ {
		switch c := valid[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if level++; level > MaxDepth {
				return errDeep
			}
		case c == '}' || c == ']':
			level--
		}
	}
	return nil
}
