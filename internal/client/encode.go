package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/operation"
)

// newRequest returns the request of an operation with an input, a pointer to a struct with the tags
// that Operation names.
func newRequest(d operation.Description, in any) (request, error) {
	e := encoder{path: d.Path, request: request{method: d.Method, query: url.Values{}}}
	if err := e.addFields(reflect.ValueOf(in).Elem()); err != nil {
		return request{}, fmt.Errorf("encode the request %s: %w", d.ID, err)
	}
	if strings.Contains(e.path, "{") {
		return request{}, fmt.Errorf("encode the request %s: the input lacks a part of the path %s", d.ID, e.path)
	}
	below, found := strings.CutPrefix(e.path, operation.Prefix)
	e.request.path, e.request.root = below, !found
	return e.request, nil
}

// encoder adds the fields of an input to a request.
type encoder struct {
	request request
	path    string // with the braces that are still to be replaced
}

func (e *encoder) addFields(in reflect.Value) error {
	for i := range in.NumField() {
		field, value := in.Type().Field(i), in.Field(i)
		var err error
		switch {
		case !field.IsExported():
		case field.Anonymous:
			err = e.addFields(value)
		case field.Name == "Body":
			err = e.setBody(value)
		case field.Type == reflect.TypeFor[operation.Content]():
			content := value.Interface().(operation.Content)
			e.request.body, e.request.size, e.request.kind = content, content.Size, operation.BinaryType
			e.request.expect = field.Tag.Get("expect")
		case field.Tag.Get("contentType") != "":
			e.setRaw(value.Bytes(), field.Tag.Get("contentType"))
		default:
			err = e.addParameter(field, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// setRaw sends a body as it is, unless it is empty.
func (e *encoder) setRaw(content []byte, kind string) {
	if len(content) > 0 {
		e.request.body, e.request.kind = bytes.NewReader(content), kind
	}
}

// setBody encodes the body, unless it is a nil pointer.
func (e *encoder) setBody(value reflect.Value) error {
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return nil
	}
	content, err := json.Marshal(value.Interface())
	e.request.body, e.request.kind = bytes.NewReader(content), "application/json"
	return err
}

// addParameter adds a parameter. One that has its zero value is left out, unless the server has
// another default.
func (e *encoder) addParameter(field reflect.StructField, value reflect.Value) error {
	tag := field.Tag
	if name := tag.Get("path"); name != "" {
		text, err := parameterText(value)
		e.path = strings.ReplaceAll(e.path, "{"+name+"}", url.PathEscape(text))
		return err
	}
	if _, hasDefault := tag.Lookup("default"); value.IsZero() && !hasDefault {
		return nil
	}
	if value.Kind() == reflect.Slice {
		name, _, _ := strings.Cut(tag.Get("query"), ",")
		for i := range value.Len() {
			e.request.query.Add(name, value.Index(i).String())
		}
		return nil
	}
	text, err := parameterText(value)
	switch {
	case err != nil:
		return err
	case tag.Get("query") != "":
		e.request.query.Set(tag.Get("query"), text)
	case tag.Get("header") == "Idempotency-Key":
		e.request.once = text
	case tag.Get("header") == "If-Match":
		e.request.ifMatch = text
	default:
		return fmt.Errorf("the field %s has no place in a request", field.Name)
	}
	return nil
}

// parameterText returns a parameter as it is sent.
func parameterText(value reflect.Value) (string, error) {
	if at, ok := value.Interface().(time.Time); ok {
		return at.Format(time.RFC3339Nano), nil
	}
	switch value.Kind() {
	case reflect.String:
		return value.String(), nil
	case reflect.Int, reflect.Int64:
		return strconv.FormatInt(value.Int(), 10), nil
	case reflect.Bool:
		return strconv.FormatBool(value.Bool()), nil
	}
	return "", fmt.Errorf("a parameter of type %s cannot be sent", value.Type())
}
