package jsonpath

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNested bounds the nesting of parentheses, brackets and functions in a filter: the parsers recurse.
const maxNested = 100

// rewriter reads a filter from left to right and writes it as RFC 9535 has it: & and | become &&
// and ||, and each comparison becomes a function: @.a < 1 is lt(@.a,1), @.a =~ 'b' is
// matches(@.a,'b') and @.a in [1] is in(@.a,1).
//
// Comparisons are functions of this package because those of the library order booleans and lists,
// and compare the spelling of numbers inside lists and objects; the standard does neither.
type rewriter struct {
	text      string
	documents []string // the names that may follow $.
	at        int      // index of the next byte of text
	nested    int
	out       []byte
	from      []int // source of each byte of out, as an index of text
}

// rewrite returns the expression that follows ? in brackets.
func (r *rewriter) rewrite() error {
	if err := r.or(); err != nil {
		return err
	}
	if !r.ended() {
		return r.fault(r.at, "want && or ||, found %q", r.rest())
	}
	return nil
}

// fault returns the error at a byte of the text.
func (r *rewriter) fault(at int, format string, args ...any) error {
	return &SyntaxError{Offset: utf8.RuneCountInString(r.text[:at]), Text: fmt.Sprintf(format, args...)}
}

// rest returns the next few characters for messages.
func (r *rewriter) rest() string {
	rest := []rune(r.text[r.at:])
	return string(rest[:min(len(rest), 12)])
}

// ended skips blanks, and reports whether nothing else follows.
func (r *rewriter) ended() bool {
	r.at = len(r.text) - len(strings.TrimLeft(r.text[r.at:], " \t\r\n"))
	return r.at == len(r.text)
}

// peek reports whether a sign comes next, after blanks.
func (r *rewriter) peek(sign string) bool {
	return !r.ended() && strings.HasPrefix(r.text[r.at:], sign)
}

// skip passes a sign, if it comes next, and reports whether it did.
func (r *rewriter) skip(sign string) bool {
	if !r.peek(sign) {
		return false
	}
	r.at += len(sign)
	return true
}

// copy writes a sign, if it comes next, and reports whether it did.
func (r *rewriter) copy(sign string) bool {
	if !r.peek(sign) {
		return false
	}
	r.take(len(sign))
	return true
}

// expect writes a sign that must come next.
func (r *rewriter) expect(sign string) error {
	if r.copy(sign) {
		return nil
	}
	return r.fault(r.at, "want %q, found %q", sign, r.rest())
}

// take writes the next n bytes of the text.
func (r *rewriter) take(n int) {
	for range n {
		r.write(r.text[r.at:r.at+1], r.at)
		r.at++
	}
}

// write appends the result of a byte of the text.
func (r *rewriter) write(made string, at int) {
	r.out = append(r.out, made...)
	r.from = append(r.from, slices.Repeat([]int{at}, len(made))...)
}

// insert writes before the byte of out at start, as a part of that byte's source.
func (r *rewriter) insert(start int, made string) {
	at := r.from[start]
	r.out = slices.Insert(r.out, start, []byte(made)...)
	r.from = slices.Insert(r.from, start, slices.Repeat([]int{at}, len(made))...)
}

// deeper limits the nesting. The caller must decrease nested again.
func (r *rewriter) deeper() error {
	if r.nested++; r.nested > maxNested {
		return r.fault(r.at, "more than %d parentheses and brackets are nested", maxNested)
	}
	return nil
}

func (r *rewriter) or() error { return r.chain("|", r.and) }

func (r *rewriter) and() error { return r.chain("&", r.not) }

// chain reads one or more parts with a sign between them, once or twice.
func (r *rewriter) chain(sign string, part func() error) error {
	for {
		if err := part(); err != nil {
			return err
		}
		if !r.copy(sign) {
			return nil
		}
		r.write(sign, r.at-1)
		if r.at < len(r.text) && r.text[r.at] == sign[0] {
			r.at++
		}
	}
}

// not reads a test or parentheses, negated or not.
func (r *rewriter) not() error {
	negated, at := false, r.at
	for r.skip("!") {
		negated = !negated
	}
	if negated {
		r.write("!", at)
	}
	if !r.peek("(") {
		return r.test()
	}
	if err := r.deeper(); err != nil {
		return err
	}
	r.take(1)
	if err := r.or(); err != nil {
		return err
	}
	r.nested--
	if err := r.expect(")"); err != nil {
		return err
	}
	if r.comparison() != "" {
		return r.fault(r.at, "parentheses cannot be compared")
	}
	return nil
}

// comparisons are the operators and their functions. An operator that begins like another comes first.
var comparisons = []struct{ sign, function string }{
	{"==", "eq"}, {"!=", "ne"}, {"<=", "le"}, {">=", "ge"}, {"=~", "matches"}, {"<", "lt"}, {">", "gt"},
}

// comparison returns the function of the operator that comes next; "" if none does.
func (r *rewriter) comparison() string {
	for _, c := range comparisons {
		if r.peek(c.sign) {
			return c.function
		}
	}
	if r.peek("in") && r.word() == "in" {
		return "in"
	}
	return ""
}

// test reads a comparison, a query or a function that is true or false.
func (r *rewriter) test() error {
	at := r.at
	start := len(r.out)
	alone, err := r.operand()
	if err != nil {
		return err
	}
	function := r.comparison()
	if function == "" {
		if !alone {
			return r.fault(at, "want a comparison, found the value %q alone", strings.TrimSpace(r.text[at:r.at]))
		}
		return nil
	}
	r.insert(start, function+"(")
	operator := 2
	if function == "lt" || function == "gt" {
		operator = 1
	}
	r.write(",", r.at)
	r.at += operator
	switch function {
	case "in":
		err = r.list()
	case "matches":
		err = r.pattern()
	default:
		_, err = r.operand()
	}
	r.write(")", r.at-1)
	return err
}

// list reads values in brackets, and writes them as arguments. The comma before them is written
// already.
func (r *rewriter) list() error {
	if !r.skip("[") {
		return r.fault(r.at, `want "[", found %q`, r.rest())
	}
	if r.skip("]") {
		r.out, r.from = r.out[:len(r.out)-1], r.from[:len(r.from)-1] // the comma
		return nil
	}
	for {
		if err := r.literal(); err != nil {
			return err
		}
		if r.skip("]") {
			return nil
		}
		if err := r.expect(","); err != nil {
			return err
		}
	}
}

// pattern reads a regular expression: 'b.*' or /b.*/i.
func (r *rewriter) pattern() error {
	if !r.peek("/") && !r.peek("'") && !r.peek(`"`) {
		return r.fault(r.at, "want a regular expression in quotes or between slashes, found %q", r.rest())
	}
	at := r.at
	if r.text[r.at] != '/' {
		return r.quoted()
	}
	inner, err := r.until('/')
	if err != nil {
		return err
	}
	pattern := strings.ReplaceAll(inner, `\/`, "/")
	if strings.HasPrefix(r.text[r.at:], "i") {
		r.at++
		pattern = "(?i)" + pattern
	}
	r.write("'"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(pattern)+"'", at)
	return nil
}

// operand reads a query, a value or a function. It reports whether that may be a test without a
// comparison.
func (r *rewriter) operand() (alone bool, err error) {
	if r.ended() {
		return false, r.fault(r.at, "unexpected end of the filter")
	}
	switch word := r.word(); {
	case r.peek("@"):
		r.take(1)
		return true, r.segments()
	case r.peek("$"):
		return true, r.document()
	case word == "" || word == "true" || word == "false" || word == "null" || word[0] < 'A':
		return false, r.literal()
	default:
		return word == "match" || word == "search", r.function(word)
	}
}

// word returns the letters and digits that come next.
func (r *rewriter) word() string {
	rest := r.text[r.at:]
	end := strings.IndexFunc(rest, func(c rune) bool {
		return c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c < utf8.RuneSelf
	})
	if end < 0 {
		return rest
	}
	return rest[:end]
}

// document reads a query that begins with $ and the name of a document.
func (r *rewriter) document() error {
	at := r.at
	r.take(1)
	if r.copy(".") {
		if name := r.word(); slices.Contains(r.documents, name) {
			r.take(len(name))
			return r.segments()
		}
	}
	return r.fault(at, "want one of .%s after $", strings.Join(r.documents, ", ."))
}

// segments reads the rest of a query.
func (r *rewriter) segments() error {
	for {
		switch {
		case r.peek("["):
			if err := r.brackets(); err != nil {
				return err
			}
		case r.copy(".."):
			if err := r.name(r.at < len(r.text) && r.text[r.at] == '['); err != nil {
				return err
			}
		case r.copy("."):
			if err := r.name(false); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// name reads a name or * behind a dot. optional: brackets follow instead.
func (r *rewriter) name(optional bool) error {
	word := r.word()
	switch {
	case optional:
		return nil
	case strings.HasPrefix(r.text[r.at:], "*"):
		r.take(1)
		return nil
	case word == "" || word[0] <= '9':
		return r.fault(r.at, "want a name, found %q", r.rest())
	}
	r.take(len(word))
	return nil
}

// brackets reads selectors.
func (r *rewriter) brackets() error {
	if err := r.deeper(); err != nil {
		return err
	}
	r.take(1)
	for {
		if err := r.selector(); err != nil {
			return err
		}
		if r.copy("]") {
			r.nested--
			return nil
		}
		if err := r.expect(","); err != nil {
			return err
		}
	}
}

// indexes matches an index or a slice.
var indexes = regexp.MustCompile(`^(-?\d+\s*)?(:\s*(-?\d+\s*)?){0,2}`)

func (r *rewriter) selector() error {
	switch {
	case r.copy("*"):
		return nil
	case r.copy("?"):
		return r.or()
	case r.peek("'"), r.peek(`"`):
		return r.quoted()
	}
	found := indexes.FindString(r.text[r.at:])
	if found == "" {
		return r.fault(r.at, "want a name in quotes, an index, * or ?, found %q", r.rest())
	}
	r.take(len(found))
	return nil
}

// function reads one of the functions of the standard. The library checks its arguments.
func (r *rewriter) function(name string) error {
	switch {
	case !strings.HasPrefix(r.text[r.at+len(name):], "("):
		return r.fault(r.at, "%q is not a value: put text in quotes", name)
	case !slices.Contains([]string{"length", "count", "value", "match", "search"}, name):
		return r.fault(r.at, "function %s() not found", name)
	}
	if err := r.deeper(); err != nil {
		return err
	}
	r.take(len(name) + 1)
	for first := true; !r.copy(")"); first = false {
		if !first {
			if err := r.expect(","); err != nil {
				return err
			}
		}
		if _, err := r.operand(); err != nil {
			return err
		}
	}
	r.nested--
	return nil
}

// numeral matches a number.
var numeral = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?`)

// literal reads a value.
func (r *rewriter) literal() error {
	if r.peek("'") || r.peek(`"`) {
		return r.quoted()
	}
	if word := r.word(); word == "true" || word == "false" || word == "null" {
		r.take(len(word))
		return nil
	}
	digits := numeral.FindString(r.text[r.at:])
	value, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		return r.fault(r.at, "want @, $ or a value, found %q", r.rest())
	}
	r.write(strconv.FormatFloat(value, 'e', -1, 64), r.at) // the library takes no integer above 64 bits, and no E
	r.at += len(digits)
	return nil
}

// quoted reads a text in quotes. A backslash that begins no escape of JSON is a character of the
// text, as in '\d'.
func (r *rewriter) quoted() error {
	at, sign := r.at, r.text[r.at]
	inner, err := r.until(sign)
	if err != nil {
		return err
	}
	r.write(string(sign), at)
	for i := 0; i < len(inner); i++ {
		next := byte(0)
		if inner[i] == '\\' { // the function until leaves none at the end
			next = inner[i+1]
		}
		switch {
		case next == 0:
			r.write(inner[i:i+1], at+1+i)
			continue
		case next == sign || strings.IndexByte(`\/bfnrtu`, next) >= 0:
			r.write(inner[i:i+2], at+1+i)
		case next == '\'' || next == '"':
			r.write(inner[i+1:i+2], at+1+i)
		default:
			r.write(`\`+inner[i:i+2], at+1+i)
		}
		i++
	}
	r.write(string(sign), r.at-1)
	return nil
}

// until passes a text between two equal signs, and returns the text between them. A backslash keeps the next sign
// from ending it.
func (r *rewriter) until(sign byte) (string, error) {
	start := r.at + 1
	for end := start; end < len(r.text); end++ {
		switch r.text[end] {
		case sign:
			r.at = end + 1
			return r.text[start:end], nil
		case '\\':
			end++
		}
	}
	return "", r.fault(r.at, "missing closing %c", sign)
}
