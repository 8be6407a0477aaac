package operation

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

const (
	YAMLType   = "application/yaml"
	BinaryType = "application/octet-stream"
)

// PlainJSON returns an error of encoding/json without the names of Go's types: it names the field and the kind of its values.
func PlainJSON(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	_, noTime := errors.AsType[*time.ParseError](err)
	switch {
	case noTime || err != nil && strings.HasPrefix(err.Error(), "Time.UnmarshalJSON: "):
		return errors.New("want a time such as 2026-01-02T15:04:05Z")
	case !ok:
		return err
	}
	text := fmt.Sprintf("want %s, found %s", kindWords(wrong.Type.Kind()), fault.Clip(wrong.Value))
	if wrong.Field != "" {
		text = wrong.Field + ": " + text
	}
	return errors.New(text)
}

// kindWords returns the JSON value from which a kind of Go values is read.
func kindWords(kind reflect.Kind) string {
	return cmp.Or(map[reflect.Kind]string{reflect.String: "a string", reflect.Bool: "true or false", reflect.Float64: "a number",
		reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object"}[kind], "a whole number")
}
