package osb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/waybill-dev/waybill/internal/cachekey"
)

// MostLevels bounds how deep the objects and lists of a body are nested.
const MostLevels = 100

// parseObject reads a JSON object; numbers are json.Number. It refuses repeated keys, text that is not UTF-8, anything
// after the object, and more than MostLevels levels.
func parseObject(text []byte) (map[string]any, error) {
	decoder := jsontext.NewDecoder(bytes.NewReader(text))
	value, err := readValue(decoder)
	if err != nil {
		return nil, err
	}
	if _, err := decoder.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text follows the object")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("want an object")
	}
	return object, nil
}

// readValue reads the decoder's next value.
func readValue(decoder *jsontext.Decoder) (any, error) {
	token, err := decoder.ReadToken()
	if err != nil {
		return nil, malformed(err)
	}
	switch token.Kind() {
	case '{':
		return readFields(decoder)
	case '[':
		return readItems(decoder)
	case '"':
		return token.String(), nil
	case '0':
		return json.Number(token.String()), nil
	case 'n':
		return nil, nil
	}
	return token.Bool(), nil
}

// malformed returns a syntax error without the prefix of the decoder's package.
func malformed(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("it is empty")
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return fmt.Errorf("%w after byte %d", syntactic.Err, syntactic.ByteOffset)
	}
	return err
}

// readFields reads the fields of an object whose brace was read, and its end.
func readFields(decoder *jsontext.Decoder) (any, error) {
	if decoder.StackDepth() > MostLevels {
		return nil, tooDeep()
	}
	object := map[string]any{}
	for decoder.PeekKind() != '}' {
		token, err := decoder.ReadToken()
		if err != nil {
			return nil, malformed(err)
		}
		name := token.String()
		if object[name], err = readValue(decoder); err != nil {
			return nil, err
		}
	}
	_, err := decoder.ReadToken()
	return object, err
}

// readItems reads the items of a list whose bracket was read, and its end.
func readItems(decoder *jsontext.Decoder) (any, error) {
	if decoder.StackDepth() > MostLevels {
		return nil, tooDeep()
	}
	list := []any{}
	for decoder.PeekKind() != ']' {
		item, err := readValue(decoder)
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	_, err := decoder.ReadToken()
	return list, err
}

func tooDeep() error { return fmt.Errorf("it has more than %d levels", MostLevels) }

// CanonicalOf returns the canonical form of an object of any values that JSON has; that of one without fields is Empty.
func CanonicalOf(object map[string]any) (Canonical, error) {
	if len(object) == 0 {
		return Empty, nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return "", err
	}
	plain, err := parseObject(text)
	if err != nil {
		return "", err
	}
	return canonical(plain)
}

// canonical returns the canonical form of an object that parseObject has read. It refuses numbers that no double holds.
func canonical(object map[string]any) (Canonical, error) {
	text, err := cachekey.Canonical(object)
	return Canonical(text), err
}

// values returns the fields of a canonical object; "" has none.
func (c Canonical) values() map[string]any {
	object, err := parseObject([]byte(c))
	if err != nil {
		return map[string]any{}
	}
	return object
}
