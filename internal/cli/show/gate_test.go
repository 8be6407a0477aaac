package show

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// hostile is text that does something to a terminal.
const hostile = "a\x1b]0;title\x07b\x1b]52;c;ZXZpbA==\x1b\\c\x1b[2Jd\x1b[1;1He\x9b31mf\u009b2Jg\rh\bi\x7fj\u202ek\u2066l\x1bPq\x1b\\m\x1bcn\x1b[8mo\x1b[41mp"

func TestWhatOthersWroteReachesNoTerminal(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	fmt.Fprintf(&gate{w: &b}, "%s\x1b[31mred\x1b[0m\n", hostile)
	if got, want := b.String(), "abcde\ufffd31mfghijklmnopred\n"; got != want {
		t.Errorf("a pipe gets %q, want %q", got, want)
	}
	b.Reset()
	painted := Style{Colours: true}
	fmt.Fprintf(&gate{w: &b, colour: isOurs}, "%s %s\n", painted.bad("failed"), hostile)
	if got, want := b.String(), "\x1b[31mfailed\x1b[0m abcde\ufffd31mfghijklmnop\n"; got != want {
		t.Errorf("a terminal gets %q, want %q", got, want)
	}
	b.Reset()
	fmt.Fprintln(&gate{w: &b, colour: isOurs}, "text \x1b[31mthat stays red")
	if got, want := b.String(), "text \x1b[31mthat stays red\x1b[0m\n"; got != want {
		t.Errorf("a colour runs on: %q, want %q", got, want)
	}
}

func TestATableRowIsOneLine(t *testing.T) {
	t.Parallel()
	var rows table
	rows.add("one", "failed\nforged  SUCCESSFUL")
	if got := rows.lines(); len(got) != 1 || strings.Contains(got[0], "\n") {
		t.Errorf("got %q", got)
	}
}

func TestJSONCarriesControlsEscaped(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.ToValidUTF8(
			rapid.StringOf(rapid.RuneFrom([]rune("aé\x00\x1b\x7f\u0085\u009b\u202e\u2066\u2028\n\t\"\\[31m"))).Draw(t, "text"), "")
		var b strings.Builder
		p := Printer{Out: &gate{w: &b}}
		if err := p.Document(map[string]string{"text": text}); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(b.String(), "\x1b\x7f\u0085\u009b\u202e\u2066\u2028") {
			t.Fatalf("a control character is left in %q", b.String())
		}
		var back map[string]string
		if err := json.Unmarshal([]byte(b.String()), &back); err != nil || back["text"] != text {
			t.Fatalf("%q comes back as %q, %v", text, back["text"], err)
		}
	})
}
