package cloudevent

import (
	"errors"
	"fmt"
	"mime"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/fault"
)

// IsName reports whether a name can be that of an attribute: lower-case letters and digits, and not the reserved name
// data.
func IsName(name string) bool {
	return name != "" && name != dataName && len(name) <= MaxName && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})
}

// wrong returns a fault of an attribute. The name comes from the request: only its beginning is repeated.
func wrong(name string, err error) error {
	return fault.New(fault.Invalid, "attribute %.*q: %w", MaxName, name, err)
}

// set sets an attribute or extension, which is absent so far. The value is string, bool or int32.
func (e *Event) set(name string, value any) error {
	if !IsName(name) {
		return wrong(name, fmt.Errorf("want a name of at most %d of a-z and 0-9", MaxName))
	}
	text, isText := value.(string)
	if err := checkText(text); err != nil {
		return wrong(name, err)
	}
	field := e.field(name)
	if field == nil {
		if e.Extensions == nil {
			e.Extensions = map[string]any{}
		}
		e.Extensions[name] = value
		if len(e.Extensions) > MaxExtensions {
			return fault.New(fault.Invalid, "the event has more than %d extensions", MaxExtensions)
		}
		return nil
	}
	switch {
	case !isText:
		return wrong(name, errors.New("not a string"))
	case text == "":
		return wrong(name, errors.New("empty"))
	}
	if err := check(name, text); err != nil {
		return wrong(name, err)
	}
	*field = text
	return nil
}

// complete returns a fault if a required attribute is missing.
func (e *Event) complete() error {
	for _, name := range []string{"specversion", "id", "source", "type"} {
		if *e.field(name) == "" {
			return wrong(name, errors.New("missing"))
		}
	}
	return nil
}

// checkText returns the fault of a text that the standard does not allow in any attribute; nil without one.
func checkText(text string) error {
	switch {
	case len(text) > MaxAttribute:
		return fmt.Errorf("longer than %d bytes", MaxAttribute)
	case !utf8.ValidString(text):
		return errors.New("not valid UTF-8")
	case strings.ContainsFunc(text, unicode.IsControl): // U+0000 to U+001F and U+007F to U+009F
		return errors.New("it has a control character")
	case strings.ContainsFunc(text, isNoncharacter):
		return errors.New("it has a code point that Unicode reserves as a noncharacter")
	}
	return nil
}

// isNoncharacter reports whether Unicode guarantees that a code point is never a character.
func isNoncharacter(r rune) bool { return r&0xfffe == 0xfffe || r >= 0xfdd0 && r <= 0xfdef }

// check returns the fault of an attribute that the standard defines; nil without one.
func check(name, text string) error {
	switch name {
	case "specversion":
		if text != Version {
			return fmt.Errorf("want %q", Version)
		}
	case "source":
		if !isReference(text) {
			return errors.New("not a URI reference")
		}
	case "dataschema":
		if !isAbsolute(text) {
			return errors.New("not an absolute URI without a fragment")
		}
	case "time":
		if !isTime(text) {
			return errors.New("not a time of RFC 3339")
		}
	case "datacontenttype":
		if media, _, err := mime.ParseMediaType(text); err != nil || !strings.Contains(media, "/") {
			return errors.New("not a media type")
		}
	}
	return nil
}

// timeShape matches the form of a time in RFC 3339, in capitals.
var timeShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)

// isTime reports whether a text is a time of RFC 3339. Package time knows no leap second, which is read as the second
// before it and must be the last of a day in UTC.
func isTime(text string) bool {
	text = strings.ToUpper(text)
	if !timeShape.MatchString(text) {
		return false
	}
	const seconds = len("2006-01-02T15:04:")
	leap := strings.HasPrefix(text[seconds:], "60")
	if leap {
		text = text[:seconds] + "59" + text[seconds+len("60"):]
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return false
	}
	hour, minute, _ := at.UTC().Clock()
	return !leap || hour == 23 && minute == 59
}
