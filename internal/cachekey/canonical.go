package cachekey

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// appendCanonical writes a value in the form of RFC 8785.
func appendCanonical(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case string:
		return appendString(b, v), nil
	case json.Number:
		return appendNumber(b, v)
	case []any:
		return appendList(b, v)
	case map[string]any:
		return appendObject(b, v)
	}
	return nil, fmt.Errorf("a %T is not a value of JSON", value)
}

func appendList(b []byte, list []any) (_ []byte, err error) {
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendCanonical(b, item); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendObject writes the keys in the order of their UTF-16 code units (section 3.2.3).
func appendObject(b []byte, object map[string]any) (_ []byte, err error) {
	keys := slices.SortedFunc(maps.Keys(object), func(x, y string) int {
		return slices.Compare(utf16.Encode([]rune(x)), utf16.Encode([]rune(y)))
	})
	b = append(b, '{')
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, key), ':')
		if b, err = appendCanonical(b, object[key]); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendString escapes what must be escaped and nothing else (section 3.2.2.2).
func appendString(b []byte, text string) []byte {
	b = append(b, '"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r >= 0x20:
			b = append(b, string(r)...)
		default:
			b = appendControl(b, r)
		}
	}
	return append(b, '"')
}

func appendControl(b []byte, r rune) []byte {
	if i := strings.IndexRune("\b\t\n\f\r", r); i >= 0 {
		return append(b, '\\', "btnfr"[i])
	}
	return fmt.Appendf(b, "\\u%04x", r)
}

// exactLimit is the magnitude from which not every integer is a double of its own.
const exactLimit = 1 << 53

// appendNumber writes a number as ECMAScript does (section 3.2.2.3). An integer that a double would
// round keeps its digits, because two payloads that differ must have two keys.
func appendNumber(b []byte, n json.Number) ([]byte, error) {
	if whole, ok := wholeNumber(n.String()); ok && whole.CmpAbs(big.NewInt(exactLimit)) > 0 {
		return whole.Append(b, 10), nil
	}
	f, err := n.Float64()
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, fmt.Errorf("the number %s has no place in a double", shorten(n.String()))
	}
	if f == 0 {
		return append(b, '0'), nil // also of -0
	}
	format := byte('f')
	if magnitude := math.Abs(f); magnitude < 1e-6 || magnitude >= 1e21 {
		format = 'e'
	}
	text := strconv.FormatFloat(f, format, -1, 64)
	if mantissa, exponent, found := strings.Cut(text, "e"); found {
		sign, digits := exponent[:1], strings.TrimLeft(exponent[1:], "0")
		text = mantissa + "e" + sign + digits
	}
	return append(b, text...), nil
}

// wholeNumber reads an integer that is written with digits alone.
func wholeNumber(text string) (*big.Int, bool) {
	if len(text) < len("9007199254740992") || strings.ContainsAny(text, ".eE") {
		return nil, false
	}
	return new(big.Int).SetString(text, 10)
}

// shorten keeps a number of a thousand digits out of an error.
func shorten(text string) string { return text[:min(len(text), 40)] }
