package operation

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/waybill-dev/waybill/internal/fault"
)

const (
	YAMLType   = "application/yaml"
	BinaryType = "application/octet-stream"
)

// PlainJSON returns an error of encoding/json without the names of Go's types: it names the field and what it expects.
func PlainJSON(err error) error {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
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
	switch kind {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "a whole number"
}
