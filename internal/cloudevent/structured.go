package cloudevent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waybill-dev/waybill/internal/fault"
)

// The members of an event in JSON that are not attributes.
const (
	dataName   = "data"
	base64Name = "data_base64"
)

// readStructured reads one event in JSON.
func readStructured(body []byte) (Event, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body))
	e, err := readEvent(decoder)
	if err == nil {
		err = atEnd(decoder)
	}
	if err != nil {
		return Event{}, err
	}
	return e, nil
}

// readBatch reads a list of events in JSON.
func readBatch(body []byte) ([]Event, error) {
	decoder := jsontext.NewDecoder(bytes.NewBuffer(body))
	if err := open(decoder, '[', "the batch is not a JSON list"); err != nil {
		return nil, err
	}
	events := []Event{}
	for decoder.PeekKind() != ']' {
		if len(events) == MaxBatch {
			return nil, fault.New(fault.TooLarge, "the batch has more than %d events", MaxBatch)
		}
		e, err := readEvent(decoder)
		if err != nil {
			return nil, fault.New(fault.CodeOf(err), "event %d: %w", len(events), err)
		}
		events = append(events, e)
	}
	if _, err := decoder.ReadToken(); err != nil {
		return nil, unreadable(err)
	}
	if err := atEnd(decoder); err != nil {
		return nil, err
	}
	return events, nil
}

// open reads the beginning of an object or list.
func open(decoder *jsontext.Decoder, want jsontext.Kind, other string) error {
	token, err := decoder.ReadToken()
	switch {
	case err != nil:
		return unreadable(err)
	case token.Kind() != want:
		return fault.New(fault.Invalid, "%s", other)
	}
	return nil
}

// atEnd returns a fault unless nothing follows.
func atEnd(decoder *jsontext.Decoder) error {
	switch _, err := decoder.ReadToken(); {
	case errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return nil
	case err != nil:
		return unreadable(err)
	}
	return fault.New(fault.Invalid, "not valid JSON: more than one value")
}

// unreadable returns the fault of a text that is not valid JSON, or repeats a key.
func unreadable(err error) error {
	syntax, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case !ok:
		return fault.New(fault.Invalid, "not valid JSON: it is empty")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return fault.New(fault.Invalid, "the key at byte %d is repeated", syntax.ByteOffset)
	}
	return fault.New(fault.Invalid, "not valid JSON: at byte %d", syntax.ByteOffset) // the cause would repeat a part of it
}

// readEvent reads the next event.
func readEvent(decoder *jsontext.Decoder) (e Event, err error) {
	if err := open(decoder, '{', "the event is not a JSON object"); err != nil {
		return Event{}, err
	}
	data := map[string]jsontext.Value{}
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return Event{}, unreadable(err)
		}
		name := token.String()
		value, err := decoder.ReadValue()
		if err != nil {
			return Event{}, unreadable(err)
		}
		if name == dataName || name == base64Name && value.Kind() != 'n' {
			data[name] = value.Clone()
			continue
		}
		if err := e.setMember(name, value); err != nil {
			return Event{}, err
		}
	}
	if _, err := decoder.ReadToken(); err != nil {
		return Event{}, unreadable(err)
	}
	if err := e.complete(); err != nil {
		return Event{}, err
	}
	return e, e.setData(data[dataName], data[base64Name])
}

// setMember sets an attribute to a JSON value. A name that cannot be one is refused also if its value is null, which
// otherwise means that the attribute is absent.
func (e *Event) setMember(name string, value jsontext.Value) error {
	switch value.Kind() {
	case 'n':
		if name == base64Name || IsName(name) {
			return nil
		}
		return e.set(name, "")
	case '"':
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return wrong(name, err)
		}
		return e.set(name, string(text))
	case 't', 'f':
		return e.set(name, value.Kind() == 't')
	case '0':
		number, err := strconv.ParseInt(string(value), 10, 32)
		if err != nil {
			return wrong(name, errors.New("not an integer of 32 bits"))
		}
		return e.set(name, int32(number))
	}
	return wrong(name, fmt.Errorf("want a string, a boolean or an integer: %s", kindName(value)))
}

// kindName returns the kind of a list or object, for errors.
func kindName(value jsontext.Value) string {
	if value.Kind() == '[' {
		return "it is a list"
	}
	return "it is an object"
}
