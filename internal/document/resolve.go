package document

import "regexp"

// The table by which a plain scalar gets its kind. It is Waybill's own, so that an upgrade of the
// YAML library changes no file's meaning.
var (
	wholeNumber = regexp.MustCompile(`^[-+]?(0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)$`)
	fraction    = regexp.MustCompile(`^[-+]?((\.[0-9][0-9_]*|[0-9][0-9_]*(\.[0-9_]*)?)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF))$`)
	moment      = regexp.MustCompile(`^[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}` +
		`(([Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(\.[0-9]*)?([ \t]*(Z|[-+][0-9]{1,2}(:?[0-9]{2})?))?)?$`)
)

// Resolve returns the kind of a plain scalar: one without quotes and without a tag.
// Words such as yes, on, no and off are strings.
func Resolve(text string) Kind {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Null
	case "true", "True", "TRUE", "false", "False", "FALSE":
		return Bool
	case ".nan", ".NaN", ".NAN":
		return Float
	}
	switch first := text[0]; {
	case first != '.' && first != '-' && first != '+' && (first < '0' || first > '9'):
		return String // nothing else begins a number
	case wholeNumber.MatchString(text):
		return Int
	case fraction.MatchString(text):
		return Float
	case moment.MatchString(text):
		return Timestamp
	}
	return String
}
