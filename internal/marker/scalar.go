package marker

import (
	"errors"
	"regexp"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v4"
)

// encode returns the bytes that write the wanted text in place of the scalar. Quotes keep their style. A plain scalar stays plain
// if it then reads back as the same text with the type that it has had.
func (v *value) encode(want string) (string, error) {
	if want == "" {
		return "", errors.New("the wanted value is empty")
	}
	switch {
	case v.node.Style&yaml.SingleQuotedStyle != 0:
		return "'" + strings.ReplaceAll(want, "'", "''") + "'", nil
	case v.node.Style&yaml.DoubleQuotedStyle == 0 && v.staysPlain(want):
		return want, nil
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(want) + `"`, nil
}

// staysPlain reports whether the text can replace the plain scalar without quotes.
func (v *value) staysPlain(want string) bool {
	got := readPlain(want, v.flow)
	if got == nil {
		return false
	}
	if v.node.Style&yaml.TaggedStyle != 0 || v.node.Tag == "!" {
		return true // the tag is its type, whatever the text
	}
	switch {
	case got.Tag != v.node.Tag:
		return false
	case got.Tag == "!!str":
		return !typed.MatchString(want)
	case got.Tag == "!!int":
		n, err := strconv.ParseInt(want, 10, 64)
		return err == nil && strconv.FormatInt(n, 10) == want
	case got.Tag == "!!float":
		x, err := strconv.ParseFloat(want, 64)
		return err == nil && strings.Contains(want, ".") && strconv.FormatFloat(x, 'f', -1, 64) == want
	}
	return false
}

// readPlain parses a plain scalar as a value of a mapping, in flow style or not; nil if it is not read back as it is.
func readPlain(want string, flow bool) *yaml.Node {
	before, after := "k: ", " # c\n"
	if flow {
		before, after = "{k: ", ", l: m}\n"
	}
	roots, err := parse([]byte(before + want + after))
	if err != nil || len(roots) != 1 || len(roots[0].Content) != 1 {
		return nil
	}
	root := roots[0].Content[0]
	if root.Kind != yaml.MappingNode || len(root.Content) < 2 {
		return nil
	}
	const styled = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle | yaml.TaggedStyle
	got := root.Content[1]
	if got.Kind != yaml.ScalarNode || got.Value != want || got.Style&styled != 0 || got.Anchor != "" {
		return nil
	}
	return got
}

// typed matches plain scalars that some reader of YAML takes for something other than text: numbers, also in groups, with
// a base, or of hours and minutes; truth values, nothing, and the keys of merges and defaults.
var typed = regexp.MustCompile(`(?i)^(?:` +
	`[-+]?(?:\.[0-9_]+|[0-9][0-9_]*(?:\.[0-9_]*)?)(?:e[-+]?[0-9_]+)?` +
	`|[-+]?0[box][0-9a-f_]+` +
	`|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?` +
	`|[-+]?\.inf|\.nan|y|n|yes|no|on|off|true|false|null|~|=|<<` +
	`|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt \t].*)?` +
	`)$`)
