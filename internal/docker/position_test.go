package docker

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// engineLog returns an output as the Engine's log gives it back: lines are cut into messages of 16 KiB, and each byte
// of a message that is not UTF-8 becomes U+FFFD.
func engineLog(output []byte) []byte {
	var log []byte
	for line := range bytes.SplitAfterSeq(output, []byte("\n")) {
		text, newline := bytes.CutSuffix(line, []byte("\n"))
		for len(text) > 0 {
			n := min(len(text), messageSize)
			for _, r := range string(text[:n]) {
				log = utf8.AppendRune(log, r)
			}
			text = text[n:]
		}
		if newline {
			log = append(log, '\n')
		}
	}
	return log
}

// TestWhatWasTakenIsSkippedInTheLog: wherever the connection breaks, the part that was taken and the rest of the log
// are the whole output.
func TestWhatWasTakenIsSkippedInTheLog(t *testing.T) {
	t.Parallel()
	piece := rapid.SampledFrom([]string{"a", "line\n", "\n", "\r\n", "é", "\x00", "\U0001F600",
		strings.Repeat("x", messageSize-1), strings.Repeat("y", 40_000), "\xff\xfe", "\xe2"})
	rapid.Check(t, func(t *rapid.T) {
		output := []byte(strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "output"), ""))
		at := rapid.IntRange(0, len(output)).Draw(t, "cut")
		for at > 0 && at < len(output) && !utf8.RuneStart(output[at]) { // a read may end inside a character, which the log may have replaced
			at--
		}
		var p position
		for taken := output[:at]; len(taken) > 0; {
			n := rapid.IntRange(1, len(taken)).Draw(t, "read")
			p.add(taken[:n])
			taken = taken[n:]
		}
		log := engineLog(output)
		skip := p.skipper()
		var rest []byte
		for unread := log; len(unread) > 0; {
			n := rapid.IntRange(1, len(unread)).Draw(t, "frame")
			rest = append(rest, skip.rest(unread[:n])...)
			unread = unread[n:]
		}
		if got, want := string(engineLog(append(bytes.Clone(output[:at]), rest...))), string(log); got != want &&
			utf8.Valid(output) && !splitsCharacter(output) {
			t.Fatalf("got %.100q, want %.100q", got, want)
		}
		if utf8.Valid(output) && !splitsCharacter(output) && string(append(bytes.Clone(output[:at]), rest...)) != string(output) {
			t.Fatalf("cut at %d: the rest is %.100q of %.100q", at, rest, output)
		}
	})
}

// splitsCharacter reports whether the Engine cuts a message inside a character.
func splitsCharacter(output []byte) bool { return !bytes.Equal(engineLog(output), output) }

// TestALogThatHasLessOfALineIsNotSkippedBeyondIt: another Engine may count otherwise.
func TestALogThatHasLessOfALineIsNotSkippedBeyondIt(t *testing.T) {
	t.Parallel()
	var p position
	p.add([]byte("one\n12345"))
	skip := p.skipper()
	if got := string(skip.rest([]byte("one\n123\nthree\n"))); got != "\nthree\n" {
		t.Errorf("got %q", got)
	}
}

func TestBytesThatAreNotUTF8AreCountedAsTheLogHasThem(t *testing.T) {
	t.Parallel()
	var p position
	p.add([]byte("\xff\xfeab\xe2"))
	if skip := p.skipper(); skip.bytes != 3+3+2+1 {
		t.Errorf("%d bytes", skip.bytes)
	}
}
