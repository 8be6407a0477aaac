package githost

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// Line is a marked line that a proposal changes.
type Line struct {
	File    string
	Number  int
	Was, Is string // the values
}

// closingRoom is the number of characters that a body leaves for the reason of its closing.
const closingRoom = maxSnippet + 20

// Text is title and body of a proposal.
type Text struct {
	Title, Body string
}

// Bounds of texts, in characters.
const (
	maxTitle   = 250
	maxBody    = 65000
	maxLines   = 50
	maxProofs  = 20
	maxSnippet = 300
)

// Describe returns title and body of the proposal of an action: the revisions, where the new one proved
// itself, the changed lines, a link to the run, the effect of closing it, and the details block, which is never cut.
func (c *Client) Describe(w promotion.Work, changed []Line) Text {
	t := c.driver.traits()
	limit := t.maxBody
	if limit == 0 {
		limit = maxBody
	}
	return describe(w, changed, limit, t.plain)
}

func describe(w promotion.Work, changed []Line, limit int, plain bool) Text {
	name := w.Namespace + "/" + w.Pipeline
	text := Text{Title: cutRunes(oneLine(fmt.Sprintf("Promote %s in %s to %s", name, w.Env, w.Revision)), maxTitle)}
	tail := tail(w, plain)
	var b strings.Builder
	was := "from " + code(string(w.Was)) + " "
	if w.Was == "" {
		was = ""
	}
	fmt.Fprintf(&b, "Promotes %s in %s %sto %s.\n", code(name), code(string(w.Env)), was, code(string(w.Revision)))
	left := limit - utf8.RuneCountInString(tail) - utf8.RuneCountInString(b.String())
	for _, section := range []string{proofs(w.Proof), changes(changed)} {
		if section = fit(section, left); section != "" {
			b.WriteString(section)
			left -= utf8.RuneCountInString(section)
		}
	}
	text.Body = b.String() + tail
	return text
}

// tail returns the part of a body that is always there.
func tail(w promotion.Work, plain bool) string {
	var b strings.Builder
	run := fmt.Sprintf("Run %d of %s", w.Run, code(w.Namespace+":"+w.Pipeline))
	if link := address(w.Link); link != "" {
		run = fmt.Sprintf("[Run %d of %s](%s)", w.Run, escape(w.Namespace+":"+w.Pipeline), link)
	}
	fmt.Fprintf(&b, "\n%s\n\nClosing this unmerged keeps %s out of %s.\n\n", run, code(string(w.Revision)), code(string(w.Env)))
	id := identity{pipeline: w.Namespace + "/" + w.Pipeline, env: string(w.Env), revision: w.Revision, run: w.Run, runID: w.RunID}
	block := "```\n" + id.details() + "```\n"
	if plain {
		return b.String() + block
	}
	return b.String() + "<details><summary>Details</summary>\n\n" + block + "\n</details>\n"
}

func proofs(sentences []string) string {
	if len(sentences) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\n")
	for _, sentence := range sentences[:min(len(sentences), maxProofs)] {
		fmt.Fprintf(&b, "- %s\n", escape(cutRunes(oneLine(sentence), maxSnippet)))
	}
	if more := len(sentences) - maxProofs; more > 0 {
		fmt.Fprintf(&b, "- … and %d more\n", more)
	}
	return b.String()
}

func changes(lines []Line) string {
	if len(lines) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("\nChanged lines:\n\n")
	for _, l := range lines[:min(len(lines), maxLines)] {
		place := fmt.Sprintf("%s:%d", l.File, l.Number)
		fmt.Fprintf(&b, "- %s: %s → %s\n", code(place), code(l.Was), code(l.Is))
	}
	if more := len(lines) - maxLines; more > 0 {
		fmt.Fprintf(&b, "- … and %d more\n", more)
	}
	return b.String()
}

// fit drops lines from the end of a section until it has at most limit characters.
func fit(section string, limit int) string {
	if utf8.RuneCountInString(section) <= limit {
		return section
	}
	const more = "- …\n"
	lines := strings.SplitAfter(section, "\n")
	for len(lines) > 0 {
		lines = lines[:len(lines)-1]
		if shorter := strings.Join(lines, "") + more; utf8.RuneCountInString(shorter) <= limit {
			if strings.TrimSpace(strings.Join(lines, "")) == "" {
				return ""
			}
			return shorter
		}
	}
	return ""
}

// code returns a text as inline code, whatever it contains.
func code(text string) string {
	text = cutRunes(oneLine(text), maxSnippet)
	if text == "" {
		return "(empty)"
	}
	longest, run := 0, 0
	for _, r := range text {
		if r == '`' {
			run++
			longest = max(longest, run)
			continue
		}
		run = 0
	}
	fence := strings.Repeat("`", longest+1)
	if longest > 0 {
		text = " " + text + " "
	}
	return fence + text + fence
}

// escape returns a text whose characters have no meaning in Markdown.
func escape(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == '@' || r == '#' || r == '!':
			b.WriteRune(r)
			b.WriteRune('\u200b') // no mention and no reference
		case r == '<':
			b.WriteString("&lt;")
		case r == '&':
			b.WriteString("&amp;")
		case strings.ContainsRune("\\`*_[]|~$>", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	return strings.ReplaceAll(b.String(), "://", ":\u200b//") // no link
}

// address returns an address for a link; "": it cannot be one.
func address(text string) string {
	if !strings.HasPrefix(text, "https://") && !strings.HasPrefix(text, "http://") || len(text) > 1000 {
		return ""
	}
	for _, r := range text {
		if r <= ' ' || r > '~' || slices.Contains([]rune{'(', ')', '<', '>', '"', '`', '\\', '[', ']'}, r) {
			return ""
		}
	}
	return text
}

// cutRunes returns a text of at most limit characters.
func cutRunes(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	return string([]rune(text)[:limit-1]) + "…"
}

// closedBody returns the body of a proposal that Waybill closes: the details block names the reason, so that the closing
// is not taken for a person's.
func closedBody(body string, id identity) string {
	if end := strings.LastIndex(body, "```"); end >= 0 {
		before := body[:end]
		if at := strings.LastIndex(before, "\n"+lineClosed); at >= 0 && at > strings.LastIndex(before, "```") {
			before = before[:at+1]
		}
		if strings.Contains(before, "```") {
			return strings.TrimRight(before, "\n") + "\n" + lineClosed + oneLine(id.closed) + "\n" + body[end:]
		}
	}
	return strings.TrimRight(body, "\n") + "\n\n```\n" + id.details() + "```\n"
}
