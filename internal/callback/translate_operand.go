package callback

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operand is one side of a comparison, as CEL.
type operand struct {
	value string // what can be compared; "" when it may be several nodes
	holds string // that it exists, or is true; "" when it cannot be asked alone
}

// operand is a query, a value or a function.
func (p *translator) operand(this string) (operand, error) {
	p.skip()
	if p.at == len(p.text) {
		return operand{}, p.fault("the filter ends in the middle")
	}
	switch r := p.text[p.at]; {
	case r == '@':
		p.at++
		return p.query(this)
	case r == '$':
		return p.document()
	case r >= 'a' && r <= 'z' && !slices.Contains([]string{"true", "false", "null"}, p.name()):
		return p.function(this)
	}
	value, err := p.literal()
	return operand{value: value}, err
}

// name is the word that comes next.
func (p *translator) name() string {
	end := p.at
	for end < len(p.text) && isName(p.text[end]) {
		end++
	}
	return string(p.text[p.at:end])
}

// document is a query that begins with $ and one of the documents' names.
func (p *translator) document() (operand, error) {
	start := p.at
	p.at++
	if p.accept(".") {
		if name := p.name(); slices.Contains(Documents(), name) {
			p.at += len(name)
			return p.query(name)
		}
	}
	p.at = start
	return operand{}, p.fault("after $ stands one of .%s", strings.Join(Documents(), ", ."))
}

// segment is one step of a query. It has several selectors only in brackets.
type segment []selector

// selector picks children of a node.
type selector struct {
	name   *string
	index  *int64
	all    bool
	filter func(this string) (string, error) // the CEL of the filter for a node
}

// query reads segments and writes the nodes that they select of a base.
func (p *translator) query(base string) (operand, error) {
	var segments []segment
	for {
		one, ok, err := p.segment()
		if err != nil {
			return operand{}, err
		}
		if !ok {
			break
		}
		segments = append(segments, one)
	}
	holds, err := p.exists(base, segments)
	if err != nil {
		return operand{}, err
	}
	value := base
	for _, s := range segments {
		if len(s) != 1 || s[0].all || s[0].filter != nil {
			return operand{holds: holds}, nil
		}
		value = s[0].of(value)
	}
	return operand{value: value, holds: holds}, nil
}

// of is the child that a name or an index selects.
func (s selector) of(base string) string {
	switch {
	case s.name != nil && plainName.MatchString(*s.name) && !slices.Contains(celWords, *s.name):
		return base + "." + *s.name
	case s.name != nil:
		return base + "[" + strconv.Quote(*s.name) + "]"
	case *s.index < 0:
		return base + "[size(" + base + ") - " + strconv.FormatInt(-*s.index, 10) + "]"
	}
	return base + "[" + strconv.FormatInt(*s.index, 10) + "]"
}

var plainName = regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_]*$")

// celWords cannot stand after a dot in CEL.
var celWords = strings.Fields("in true false null as break const continue else for function if import let loop package namespace return var void while")

// exists is whether segments select at least one node of a base.
func (p *translator) exists(base string, segments []segment) (string, error) {
	if len(segments) == 0 {
		return "jp.exists(" + base + ")", nil
	}
	var ways []string
	for _, s := range segments[0] {
		way, err := p.existsBy(base, s, segments[1:])
		if err != nil {
			return "", err
		}
		ways = append(ways, way)
	}
	if len(ways) == 1 {
		return ways[0], nil
	}
	return "(" + strings.Join(ways, " || ") + ")", nil
}

func (p *translator) existsBy(base string, s selector, rest []segment) (string, error) {
	if !s.all && s.filter == nil {
		return p.exists(s.of(base), rest)
	}
	node := p.variable()
	var conditions []string
	if s.filter != nil {
		condition, err := s.filter(node)
		if err != nil {
			return "", err
		}
		conditions = append(conditions, condition)
	}
	if len(rest) > 0 {
		condition, err := p.exists(node, rest)
		if err != nil {
			return "", err
		}
		conditions = append(conditions, condition)
	}
	if len(conditions) == 0 {
		conditions = []string{"true"}
	}
	return "jp.nodes(" + base + ").exists(" + node + ", " + strings.Join(conditions, " && ") + ")", nil
}

// variable is a name that is not in use.
func (p *translator) variable() string {
	p.names++
	return "n" + strconv.Itoa(p.names)
}

// segment reads one step; false: the query ends here.
func (p *translator) segment() (segment, bool, error) {
	p.skip()
	switch {
	case p.at < len(p.text)-1 && p.text[p.at] == '.' && p.text[p.at+1] == '.':
		return nil, false, p.fault("descendants (..) cannot be translated to CEL")
	case p.at < len(p.text) && p.text[p.at] == '.':
		p.at++
		if p.at < len(p.text) && p.text[p.at] == '*' {
			p.at++
			return segment{{all: true}}, true, nil
		}
		name := p.name()
		if name == "" || name[0] >= '0' && name[0] <= '9' {
			return nil, false, p.fault("want a name, found %q", p.rest())
		}
		p.at += len([]rune(name))
		return segment{{name: &name}}, true, nil
	case p.peek("["):
		p.accept("[")
		return p.brackets()
	}
	return nil, false, nil
}

// brackets reads selectors up to the closing bracket.
func (p *translator) brackets() (segment, bool, error) {
	var all segment
	for {
		one, err := p.selector()
		if err != nil {
			return nil, false, err
		}
		all = append(all, one)
		if p.accept("]") {
			return all, true, nil
		}
		if err := p.expect(","); err != nil {
			return nil, false, err
		}
	}
}

func (p *translator) selector() (selector, error) {
	p.skip()
	switch {
	case p.accept("*"):
		return selector{all: true}, nil
	case p.accept("?"):
		return p.filter()
	case p.peek("'"), p.peek(`"`):
		name, err := p.quoted()
		return selector{name: &name}, err
	}
	start := p.at
	if digits := integer.FindString(string(p.text[p.at:])); digits != "" {
		p.at += len(digits)
		if p.peek(":") {
			return selector{}, p.fault("slices cannot be translated to CEL")
		}
		index, err := strconv.ParseInt(digits, 10, 64)
		if err == nil && index <= 1<<53 && index >= -1<<53 {
			return selector{index: &index}, nil
		}
	}
	p.at = start
	return selector{}, p.fault("want a name in quotes, an index, * or ?, found %q", p.rest())
}

var integer = regexp.MustCompile(`^(0|-?[1-9][0-9]*)`)

// filter reads a filter within a query. Its text is read again for each variable that it is written for.
func (p *translator) filter() (selector, error) {
	if p.deep == maxFilters {
		return selector{}, p.fault("filters stand in each other more than %d deep", maxFilters)
	}
	start, around := p.at, p.deep
	p.deep++
	_, err := p.or("feature")
	p.deep--
	if err != nil {
		return selector{}, err
	}
	end := p.at
	return selector{filter: func(this string) (string, error) {
		inner := &translator{text: p.text[:end], at: start, names: p.names, deep: around + 1}
		expression, err := inner.or(this)
		p.names = inner.names
		return expression, err
	}}, nil
}

// function is one of RFC 9535's.
func (p *translator) function(this string) (operand, error) {
	start, name := p.at, p.name()
	p.at += len([]rune(name))
	if p.at == len(p.text) || p.text[p.at] != '(' {
		p.at = start
		return operand{}, p.fault("%q is no value; a text stands in quotes", name)
	}
	p.at++
	var arguments []operand
	for !p.accept(")") {
		if len(arguments) > 0 {
			if err := p.expect(","); err != nil {
				return operand{}, err
			}
		}
		one, err := p.operand(this)
		if err != nil {
			return operand{}, err
		}
		arguments = append(arguments, one)
	}
	wants := map[string]int{"length": 1, "value": 1, "match": 2, "search": 2}[name]
	fits := wants == len(arguments) && !slices.ContainsFunc(arguments, func(o operand) bool { return o.value == "" })
	switch {
	case wants == 0:
		p.at = start
		return operand{}, p.fault("the function %s() cannot be translated to CEL", name)
	case !fits:
		p.at = start
		return operand{}, p.fault("%s() takes %d arguments, each of one node or value", name, wants)
	case name == "length":
		return operand{value: "size(" + arguments[0].value + ")"}, nil
	case name == "value":
		return operand{value: arguments[0].value}, nil
	}
	pattern := arguments[1].value
	if text, err := strconv.Unquote(pattern); err == nil {
		pattern = strconv.Quote(plainDots(text))
	}
	if name == "match" {
		pattern = `"^(?:" + ` + pattern + ` + ")$"`
	}
	return operand{holds: "jp.holds(" + arguments[0].value + ".matches(" + pattern + "))"}, nil
}

// plainDots makes the dots of an I-Regexp (RFC 9485) RE2's: they match no carriage return either.
func plainDots(pattern string) string {
	var b strings.Builder
	inClass := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			b.WriteByte(c)
			i++
			b.WriteByte(pattern[i])
		case c == '.' && !inClass:
			b.WriteString(`[^\n\r]`)
		default:
			inClass = c == '[' || inClass && c != ']'
			b.WriteByte(c)
		}
	}
	return b.String()
}

var numeral = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)

// literal is a value as CEL writes it.
func (p *translator) literal() (string, error) {
	if p.peek("'") || p.peek(`"`) {
		text, err := p.quoted()
		return strconv.Quote(text), err
	}
	if word := p.name(); word == "true" || word == "false" || word == "null" {
		p.at += len(word)
		return word, nil
	}
	digits := numeral.FindString(string(p.text[p.at:]))
	if value, err := strconv.ParseFloat(digits, 64); err == nil {
		p.at += len(digits)
		text := strconv.FormatFloat(value, 'g', -1, 64)
		if !strings.ContainsAny(text, ".eI") {
			text += ".0"
		}
		return text, nil
	}
	return "", p.fault("want @, $ or a value, found %q", p.rest())
}

// quoted reads a text between two equal signs; a backslash keeps the next one from ending it.
func (p *translator) quoted() (string, error) {
	start, sign := p.at, p.text[p.at]
	end := p.at + 1
	for end < len(p.text) && p.text[end] != sign {
		if p.text[end] == '\\' {
			end++
		}
		end++
	}
	if end >= len(p.text) {
		return "", p.fault("the text does not end")
	}
	p.at = end + 1
	inner := string(p.text[start+1 : end])
	if sign == '/' {
		return strings.ReplaceAll(inner, `\/`, "/"), nil
	}
	text, err := unescape(inner)
	if err != nil {
		p.at = start
		return "", p.fault("the text has an escape that JSON does not know")
	}
	return text, nil
}
