package osb

import "strings"

// body reads the fields of a request's body and keeps the first fault. A field that is null is absent. Fields that no
// method reads are ignored.
type body struct {
	fields map[string]any
	err    *Error
}

func readBody(text []byte) *body {
	fields, err := parseObject(text)
	if err != nil {
		return &body{err: invalid("the body is not valid: %s", err)}
	}
	return &body{fields: fields}
}

func (b *body) fault(format string, args ...any) {
	if b.err == nil {
		b.err = invalid(format, args...)
	}
}

// text returns a text; "" if it is absent. It refuses the character 0, which databases do not store.
func (b *body) text(name string) string {
	text, ok := b.fields[name].(string)
	switch {
	case !ok && b.fields[name] != nil:
		b.fault("%s: want a string", name)
	case strings.ContainsRune(text, 0):
		b.fault("%s: the character U+0000 is not allowed", name)
	}
	return text
}

// present reports whether a field is there.
func (b *body) present(name string) bool { return b.fields[name] != nil }

// required returns a text that must be there and not empty.
func (b *body) required(name string) string {
	text := b.text(name)
	if text == "" {
		b.fault("%s is missing or empty", name)
	}
	return text
}

// object returns the fields of an object; nil if it is absent.
func (b *body) object(name string) *body {
	object, ok := b.fields[name].(map[string]any)
	switch {
	case ok:
		return &body{fields: object}
	case b.present(name):
		b.fault("%s: want an object", name)
	}
	return nil
}

// canonical returns an object in its canonical form; Empty if it is absent.
func (b *body) canonical(name string) Canonical {
	object := b.object(name)
	if object == nil {
		return Empty
	}
	text, err := canonical(object.fields)
	if err != nil {
		b.fault("%s: %s", name, err)
	}
	return text
}

// maintenance returns the version of maintenance_info; "" if it is absent, or has none.
func (b *body) maintenance() string {
	info := b.object("maintenance_info")
	if info == nil {
		return ""
	}
	version := info.text("version")
	if info.err != nil {
		b.fault("maintenance_info.%s", info.err.Description)
	}
	return version
}

// context returns the context; nil if it is absent. Its platform must be that of the originating identity. One that passes on the
// requests of others, as SAP's service manager, puts its own name there, and the identity's platform into the field origin.
func (b *body) context(origin *Identity) *Context {
	object := b.object("context")
	if object == nil {
		return nil
	}
	context := &Context{Text: b.canonical("context")}
	context.Platform, context.Namespace = object.text("platform"), object.text("namespace")
	switch {
	case object.err != nil:
		b.fault("context.%s", object.err.Description)
	case origin != nil && context.Platform != "" && context.Platform != origin.Platform && object.fields["origin"] != any(origin.Platform):
		b.fault("context.platform: %s names another platform", headerIdentity)
	}
	return context
}
