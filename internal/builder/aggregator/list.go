package aggregator

import (
	"bytes"
	"encoding/json"
	"io"

	"github.com/waybill-dev/waybill/internal/fault"
)

// mostItems is the most elements of a list of JSON, and the most tests of a step. One of three bytes may take a hundred
// times as much memory.
const mostItems = 50_000

// list is a list of JSON that has at most mostItems elements.
type list[T any] []T

// UnmarshalJSON counts the elements while it reads them.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	*l = nil
	return eachItem(json.NewDecoder(bytes.NewReader(text)), func(d *json.Decoder) error {
		var one T
		err := d.Decode(&one)
		*l = append(*l, one)
		return err
	})
}

// readList has take read each element of the list that an object has under a key.
func readList(r io.Reader, key string, take func(*json.Decoder) error) error {
	d := json.NewDecoder(r)
	start, err := d.Token()
	switch {
	case err != nil:
		return err
	case start != json.Delim('{'):
		return fault.New(fault.Corrupt, "want an object of JSON")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name == key {
			err = eachItem(d, take)
		} else {
			err = d.Decode(&json.RawMessage{})
		}
		if err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}

// eachItem has take read each element of a list. null is empty.
func eachItem(d *json.Decoder, take func(*json.Decoder) error) error {
	start, err := d.Token()
	switch {
	case err != nil || start == nil:
		return err
	case start != json.Delim('['):
		return fault.New(fault.Corrupt, "want a list of JSON")
	}
	for n := 0; d.More(); n++ {
		if n == mostItems {
			return fault.New(fault.Corrupt, "a list has more than %d elements", mostItems)
		}
		if err := take(d); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
