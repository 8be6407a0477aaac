package callback

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// translate writes a JSONPath filter as CEL. It takes the filters of RFC 9535 and the forms that swoop's files use: &
// and | for && and ||, =~ with a regular expression, in with a list. @ is the feature; $ the documents. Around the
// filter may stand ?, ?(…), or the list it is for: $.features[?…], $.output.features[?…], $[?…].
func translate(text string) (string, error) {
	p := &translator{text: []rune(text)}
	var expression string
	var err error
	switch {
	case p.accept("?"):
		expression, err = p.or("feature")
	case p.peek("$"):
		expression, err = p.whole()
	default:
		expression, err = p.or("feature")
	}
	if err != nil {
		return "", err
	}
	if p.skip(); p.at < len(p.text) {
		return "", p.fault("want && or ||, found %q", p.rest())
	}
	return expression, nil
}

// translator reads a filter from left to right and writes CEL.
type translator struct {
	text  []rune
	at    int
	names int // of the variables made so far
	open  int // parentheses and ! around here
	deep  int // filters around here
}

// How deep a filter may be nested.
const (
	maxOpen    = 100
	maxFilters = 5 // each is read again for every one around it
)

func (p *translator) fault(format string, args ...any) error {
	return &FilterError{Offset: p.at, Text: fmt.Sprintf(format, args...)}
}

// rest is the next few characters, for messages.
func (p *translator) rest() string {
	rest := p.text[min(p.at, len(p.text)):]
	return string(rest[:min(len(rest), 12)])
}

func (p *translator) skip() {
	for p.at < len(p.text) && strings.ContainsRune(" \t\r\n", p.text[p.at]) {
		p.at++
	}
}

// peek reports whether a sign comes next.
func (p *translator) peek(sign string) bool {
	p.skip()
	return strings.HasPrefix(string(p.text[p.at:]), sign)
}

// accept takes a sign, if it comes next.
func (p *translator) accept(sign string) bool {
	if !p.peek(sign) {
		return false
	}
	p.at += len([]rune(sign))
	return true
}

func (p *translator) expect(sign string) error {
	if p.accept(sign) {
		return nil
	}
	return p.fault("want %q, found %q", sign, p.rest())
}

// whole is a text that begins with $: the list of features with a filter behind it, or a comparison.
func (p *translator) whole() (string, error) {
	for _, list := range []string{"$.output.features[?", "$.features[?", "$[?"} {
		if p.accept(list) {
			expression, err := p.or("feature")
			if err != nil {
				return "", err
			}
			return expression, p.expect("]")
		}
	}
	return p.or("feature")
}

// or is the alternatives of a filter whose @ is this.
func (p *translator) or(this string) (string, error) { return p.chain(this, "||", "|", p.and) }

func (p *translator) and(this string) (string, error) { return p.chain(this, "&&", "&", p.not) }

// chain is one or more parts with a sign between them, which some write in short.
func (p *translator) chain(this, sign, short string, part func(string) (string, error)) (string, error) {
	var parts []string
	for {
		one, err := part(this)
		if err != nil {
			return "", err
		}
		parts = append(parts, one)
		if !p.accept(sign) && !p.accept(short) {
			break
		}
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return "(" + strings.Join(parts, " "+sign+" ") + ")", nil
}

func (p *translator) not(this string) (string, error) {
	if p.open++; p.open > maxOpen {
		return "", p.fault("more than %d parentheses and ! stand in each other", maxOpen)
	}
	defer func() { p.open-- }()
	if p.accept("!") {
		inner, err := p.not(this)
		return "!" + inner, err
	}
	if p.accept("(") {
		inner, err := p.or(this)
		if err != nil {
			return "", err
		}
		if err := p.expect(")"); err != nil {
			return "", err
		}
		if p.comparison() != "" {
			return "", p.fault("parentheses cannot be compared")
		}
		return inner, nil
	}
	return p.test(this)
}

// comparisons are the signs that compare, and their functions; those that begin like another one come first.
var comparisons = []struct{ sign, function string }{
	{"==", "jp.eq"}, {"!=", "jp.ne"}, {"<=", "jp.le"}, {">=", "jp.ge"}, {"=~", "=~"}, {"<", "jp.lt"}, {">", "jp.gt"},
}

// comparison is the sign that comes next; "" when none does.
func (p *translator) comparison() string {
	for _, c := range comparisons {
		if p.peek(c.sign) {
			return c.sign
		}
	}
	return ""
}

// test is a comparison, an existence or a function that says yes or no.
func (p *translator) test(this string) (string, error) {
	p.skip()
	start := p.at
	left, err := p.operand(this)
	if err != nil {
		return "", err
	}
	sign := p.comparison()
	switch {
	case sign == "=~":
		return p.regular(left)
	case sign == "" && p.word("in"):
		return p.member(left)
	case sign == "":
		if left.holds == "" {
			p.at = start
			return "", p.fault("want a comparison, found the value %q alone", left.value)
		}
		return left.holds, nil
	}
	p.accept(sign)
	right, err := p.operand(this)
	if err != nil {
		return "", err
	}
	for _, side := range []operand{left, right} {
		if side.value == "" {
			p.at = start
			return "", p.fault("only one node or value can be compared")
		}
	}
	i := slices.IndexFunc(comparisons, func(c struct{ sign, function string }) bool { return c.sign == sign })
	return comparisons[i].function + "(" + left.value + ", " + right.value + ")", nil
}

// regular is a match with a regular expression, anywhere in the text: 'b.*' or /b.*/i.
func (p *translator) regular(left operand) (string, error) {
	if left.value == "" {
		return "", p.fault("only one node or value can be matched")
	}
	p.accept("=~")
	p.skip()
	if p.at == len(p.text) || !strings.ContainsRune(`/'"`, p.text[p.at]) {
		return "", p.fault("want a regular expression in quotes or between slashes, found %q", p.rest())
	}
	slashed := p.text[p.at] == '/'
	pattern, err := p.quoted()
	if err != nil {
		return "", err
	}
	if slashed && p.at < len(p.text) && p.text[p.at] == 'i' {
		p.at++
		pattern = "(?i)" + pattern
	}
	return "jp.holds(" + left.value + ".matches(" + strconv.Quote(pattern) + "))", nil
}

// member is whether a list has the value.
func (p *translator) member(left operand) (string, error) {
	if err := p.expect("["); err != nil {
		return "", err
	}
	var items []string
	for !p.accept("]") {
		if len(items) > 0 {
			if err := p.expect(","); err != nil {
				return "", err
			}
		}
		p.skip()
		item, err := p.literal()
		if err != nil {
			return "", err
		}
		items = append(items, "jp.eq("+left.value+", "+item+")")
	}
	if left.value == "" || len(items) == 0 {
		return "false", nil
	}
	return "(" + strings.Join(items, " || ") + ")", nil
}

// word takes a word, if it comes next and ends there.
func (p *translator) word(word string) bool {
	if !p.peek(word) {
		return false
	}
	end := p.at + len(word)
	if end < len(p.text) && isName(p.text[end]) {
		return false
	}
	p.at = end
	return true
}

func isName(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r >= 0x80
}
