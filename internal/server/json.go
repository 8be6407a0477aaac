package server

import (
	"bytes"
	"fmt"
	"io"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// safeJSON returns the format of JSON whose texts a terminal does not obey, and whose errors do not name Go's types.
func safeJSON() huma.Format {
	format := huma.DefaultJSONFormat
	format.Marshal = func(w io.Writer, v any) error {
		var b bytes.Buffer
		if err := huma.DefaultJSONFormat.Marshal(&b, v); err != nil {
			return err
		}
		_, err := w.Write(escapeControls(b.Bytes()))
		return err
	}
	format.Unmarshal = func(data []byte, v any) error { return operation.PlainJSON(huma.DefaultJSONFormat.Unmarshal(data, v)) }
	return format
}

// escapeControls escapes the characters of a JSON document that a terminal or an editor may obey and that JSON allows as they are.
func escapeControls(document []byte) []byte {
	if !bytes.ContainsFunc(document, service.Obeyed) {
		return document
	}
	var b bytes.Buffer
	for _, r := range string(document) {
		if service.Obeyed(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}
