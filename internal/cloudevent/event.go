package cloudevent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
)

// Event is one CloudEvent. Read makes it, and has checked all of it. An empty text is an attribute that is absent:
// the standard allows no empty ones except in extensions.
type Event struct {
	SpecVersion string // always Version
	ID          string
	Source      string // a URI reference (RFC 3986)
	Type        string

	Subject         string
	Time            string // RFC 3339, as it was sent
	DataContentType string // a media type (RFC 2046)
	DataSchema      string // an absolute URI (RFC 3986)

	Extensions map[string]any // string, bool or int32 by name; in binary mode always string

	form form
	data []byte // JSON, UTF-8 or any bytes, by form
}

// Version is the version of CloudEvents that is read.
const Version = "1.0"

// form selects the JSON value that shows the data of an event. It depends on the type of the data alone.
type form uint8

const (
	formNone   form = iota // data is absent
	formJSON               // the value
	formText               // a text
	formBinary             // base64
)

// attributes lists the attributes that the standard defines.
var attributes = []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "dataschema"}

// field returns the place of an attribute that the standard defines; nil for an extension.
func (e *Event) field(name string) *string {
	switch name {
	case "specversion":
		return &e.SpecVersion
	case "id":
		return &e.ID
	case "source":
		return &e.Source
	case "type":
		return &e.Type
	case "subject":
		return &e.Subject
	case "time":
		return &e.Time
	case "datacontenttype":
		return &e.DataContentType
	case "dataschema":
		return &e.DataSchema
	}
	return nil
}

// Attribute returns the canonical text of an attribute or extension, by which filters compare it; false if it is
// absent. The data is not an attribute.
func (e *Event) Attribute(name string) (text string, ok bool) {
	if field := e.field(name); field != nil {
		return *field, *field != ""
	}
	switch value := e.Extensions[name].(type) {
	case string:
		return value, true
	case bool:
		return strconv.FormatBool(value), true
	case int32:
		return strconv.FormatInt(int64(value), 10), true
	}
	return "", false
}

// Size returns the bytes of the data, decoded from base64.
func (e *Event) Size() int { return len(e.data) }

// JSON returns the event as the value that JSON paths look at: an object of its attributes and extensions, and of its
// data under "data". That is the value of data of a JSON type, the text of data of a type text/*, and base64 of any
// other. Values are as encoding/json decodes them, with numbers as json.Number. Each call makes a new value.
func (e *Event) JSON() map[string]any {
	all := make(map[string]any, len(attributes)+len(e.Extensions)+1)
	for _, name := range attributes {
		if text := *e.field(name); text != "" {
			all[name] = text
		}
	}
	for name, value := range e.Extensions {
		if number, ok := value.(int32); ok {
			value = json.Number(strconv.FormatInt(int64(number), 10))
		}
		all[name] = value
	}
	switch e.form {
	case formJSON:
		all[dataName] = decode(e.data)
	case formText:
		all[dataName] = string(e.data)
	case formBinary:
		all[dataName] = base64.StdEncoding.EncodeToString(e.data)
	}
	return all
}

// decode returns the value of a valid JSON text.
func decode(valid []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(valid))
	decoder.UseNumber()
	var value any
	_ = decoder.Decode(&value) // Read has accepted the text
	return value
}
