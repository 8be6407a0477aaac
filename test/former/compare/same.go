package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// difference is where two engines answer differently.
type difference struct {
	what        string // such as Explain(3)[12].Reason
	today, then string
}

func (d difference) String() string {
	return fmt.Sprintf("%s\n  today: %s\n  then:  %s", d.what, d.today, d.then)
}

// comparer finds the first difference of two values whose types are of two packages. Types are the same if
// their exported fields are; nothing else of a type counts.
type comparer struct {
	fields map[[2]reflect.Type][]field
	// seen are pairs of pointers that are the same. Definitions are pointed to by all work and never changed.
	seen map[[2]any]bool
}

// field is one that both types have.
type field struct {
	name   string
	in     [2]int // its index in each type
	strict bool   // whether JSON shows that a list is nil
}

func newComparer() *comparer {
	return &comparer{fields: map[[2]reflect.Type][]field{}, seen: map[[2]any]bool{}}
}

// compare returns the first difference between two answers to a question.
func (c *comparer) compare(what string, today, then any) (difference, bool) {
	return c.values(what, reflect.ValueOf(today), reflect.ValueOf(then), false)
}

func (c *comparer) values(what string, today, then reflect.Value, strict bool) (difference, bool) {
	switch {
	case !today.IsValid() || !then.IsValid():
		return differ(what, today, then, today.IsValid() != then.IsValid())
	case today.Kind() != then.Kind():
		return differ(what, today, then, true)
	}
	switch today.Kind() {
	case reflect.Pointer, reflect.Interface:
		return c.pointers(what, today, then)
	case reflect.Struct:
		return c.structs(what, today, then)
	case reflect.Slice, reflect.Array:
		return c.lists(what, today, then, strict)
	case reflect.Map:
		return c.maps(what, today, then)
	case reflect.String:
		return differ(what, today, then, today.String() != then.String())
	case reflect.Bool:
		return differ(what, today, then, today.Bool() != then.Bool())
	case reflect.Float32, reflect.Float64:
		return differ(what, today, then, today.Float() != then.Float())
	}
	if today.CanInt() {
		return differ(what, today, then, today.Int() != then.Int())
	}
	return differ(what, today, then, today.Uint() != then.Uint())
}

// differ returns the difference of two values, if they differ.
func differ(what string, today, then reflect.Value, differs bool) (difference, bool) {
	if !differs {
		return difference{}, false
	}
	return difference{what, show(today), show(then)}, true
}

func show(v reflect.Value) string {
	if !v.IsValid() {
		return "nothing"
	}
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
		return string(v.Bytes())
	}
	text := fmt.Sprintf("%+v", v)
	if v.CanInterface() && (v.Kind() == reflect.Slice || v.Kind() == reflect.Struct) {
		if encoded, err := json.Marshal(v.Interface()); err == nil {
			text = string(encoded)
		}
	}
	return text[:min(len(text), widest)]
}

// widest bounds how much of a value is shown, in bytes.
const widest = 4000

func (c *comparer) pointers(what string, today, then reflect.Value) (difference, bool) {
	if today.IsNil() || then.IsNil() {
		return differ(what, today, then, today.IsNil() != then.IsNil())
	}
	if today.Kind() == reflect.Interface {
		return c.values(what, today.Elem(), then.Elem(), false)
	}
	pair := [2]any{today.Interface(), then.Interface()}
	if c.seen[pair] {
		return difference{}, false
	}
	d, differs := c.values(what, today.Elem(), then.Elem(), false)
	if !differs && strings.HasSuffix(today.Type().Elem().Name(), "Definition") {
		c.seen[pair] = true
	}
	return d, differs
}

var moment = reflect.TypeFor[time.Time]()

func (c *comparer) structs(what string, today, then reflect.Value) (difference, bool) {
	if today.Type() == moment {
		a, _ := today.Interface().(time.Time)
		b, ok := then.Interface().(time.Time)
		return differ(what, today, then, !ok || !a.Equal(b) || a.Location().String() != b.Location().String())
	}
	fields, err := c.fieldsOf(today.Type(), then.Type())
	if err != nil {
		return difference{what + " has " + err.Error(), today.Type().String(), then.Type().String()}, true
	}
	for _, f := range fields {
		if d, differs := c.values("", today.Field(f.in[0]), then.Field(f.in[1]), f.strict); differs &&
			!isKnown(today.Type().Name()+"."+f.name, d) {
			d.what = what + "." + f.name + d.what
			return d, true
		}
	}
	return difference{}, false
}

// fieldsOf pairs the exported fields of two types by name.
func (c *comparer) fieldsOf(today, then reflect.Type) ([]field, error) {
	key := [2]reflect.Type{today, then}
	if list, known := c.fields[key]; known {
		return list, nil
	}
	var list []field
	for _, f := range reflect.VisibleFields(today) {
		if len(f.Index) > 1 || !f.IsExported() {
			continue
		}
		other, ok := then.FieldByName(f.Name)
		if !ok && added[today.Name()+"."+f.Name] != "" {
			continue
		}
		if !ok || len(other.Index) > 1 {
			return nil, fmt.Errorf("the new field %s", f.Name)
		}
		tag := f.Tag.Get("json")
		list = append(list, field{f.Name, [2]int{f.Index[0], other.Index[0]}, tag != "" && !strings.Contains(tag, ",omit")})
	}
	for _, f := range reflect.VisibleFields(then) {
		if len(f.Index) == 1 && f.IsExported() && !slices.ContainsFunc(list, func(l field) bool { return l.name == f.Name }) {
			return nil, fmt.Errorf("lost the field %s", f.Name)
		}
	}
	c.fields[key] = list
	return list, nil
}

func (c *comparer) lists(what string, today, then reflect.Value, strict bool) (difference, bool) {
	if strict && today.Kind() == reflect.Slice && today.IsNil() != then.IsNil() {
		return difference{what, nilOrNot(today), nilOrNot(then)}, true
	}
	for i := range min(today.Len(), then.Len()) {
		if d, differs := c.values("", today.Index(i), then.Index(i), false); differs {
			d.what = fmt.Sprintf("%s[%d]%s", what, i, d.what)
			if today.Index(i).Kind() == reflect.Uint8 {
				return differ(what, today, then, true)
			}
			return d, true
		}
	}
	if today.Len() == then.Len() {
		return difference{}, false
	}
	return difference{fmt.Sprintf("%s, of %d and %d", what, today.Len(), then.Len()), rest(today, then), rest(then, today)}, true
}

func nilOrNot(list reflect.Value) string {
	if list.IsNil() {
		return "nil"
	}
	return fmt.Sprintf("a list of %d", list.Len())
}

// rest shows what a list has beyond the length of another.
func rest(list, other reflect.Value) string {
	if list.Len() <= other.Len() {
		return "no more"
	}
	return "also " + show(list.Slice(other.Len(), list.Len()))
}

func (c *comparer) maps(what string, today, then reflect.Value) (difference, bool) {
	if today.Len() != then.Len() {
		return differ(what, today, then, true)
	}
	for _, key := range today.MapKeys() {
		if d, differs := c.values("", today.MapIndex(key), then.MapIndex(key.Convert(then.Type().Key())), false); differs {
			d.what = fmt.Sprintf("%s[%v]%s", what, key, d.what)
			return d, true
		}
	}
	return difference{}, false
}

// compareErrors returns the first difference between two errors: their texts, the types in their chains by
// name, and what these types say beside the text, such as a code, a hint or an invariant.
func (c *comparer) compareErrors(what string, today, then error) (difference, bool) {
	for first := true; today != nil && then != nil; first = false {
		if first && today.Error() != then.Error() {
			break
		}
		a, b := reflect.Indirect(reflect.ValueOf(today)), reflect.Indirect(reflect.ValueOf(then))
		if a.Type().Name() != b.Type().Name() {
			return difference{what, a.Type().String(), b.Type().String()}, true
		}
		if d, differs := c.properties(what, a, b); differs {
			return d, true
		}
		today, then = errors.Unwrap(today), errors.Unwrap(then)
	}
	return difference{what, fmt.Sprint(today), fmt.Sprint(then)}, today != nil || then != nil
}

// properties compares the exported fields of two errors that are not errors themselves.
func (c *comparer) properties(what string, today, then reflect.Value) (difference, bool) {
	if today.Kind() != reflect.Struct {
		return difference{}, false
	}
	fields, err := c.fieldsOf(today.Type(), then.Type())
	if err != nil {
		return difference{what + " has " + err.Error(), today.Type().String(), then.Type().String()}, true
	}
	for _, f := range fields {
		if today.Field(f.in[0]).Kind() == reflect.Interface {
			continue
		}
		if d, differs := c.values(what+"."+f.name, today.Field(f.in[0]), then.Field(f.in[1]), false); differs &&
			!isKnown(today.Type().Name()+"."+f.name, d) {
			return d, true
		}
	}
	return difference{}, false
}
