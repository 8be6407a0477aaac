package attempt_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/mask"
)

// printed is a sink that records the texts of entries, with + after part of a line.
type printed struct {
	build.Sink

	got []string
}

func (p *printed) Output(entries []build.Entry) error {
	for _, e := range entries {
		text := string(e.Text)
		if e.Partial {
			text += "+"
		}
		p.got = append(p.got, text)
	}
	return nil
}

// TestALineThatGrowsIsGivenOut: a program that shows its progress prints for minutes without an end of a line.
func TestALineThatGrowsIsGivenOut(t *testing.T) {
	t.Parallel()
	var sink printed
	o := attempt.NewOutput(&sink, false, nil)
	begun := time.Now()
	for _, c := range []struct {
		text  string
		after time.Duration
		want  []string
	}{
		{"10%\r", 0, nil}, {"20%\r", attempt.OutputPause / 2, nil}, {"30%\r", attempt.OutputPause, []string{"10%\r20%\r30%+"}},
		{"40%\r", attempt.OutputPause * 3 / 2, nil}, {"50%\r", attempt.OutputPause * 2, []string{"\r40%\r50%+"}},
		{"\nnext", attempt.OutputPause * 3, []string{""}}, {" line", attempt.OutputPause*4 - 1, nil},
		{" grows", attempt.OutputPause * 4, []string{"next line grows+"}},
		{"\n", attempt.OutputPause * 4, []string{""}},
	} {
		sink.got = nil
		o.Take([]byte(c.text), begun.Add(c.after))
		if err := o.Put(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, sink.got); diff != "" {
			t.Errorf("after %q: %s", c.text, diff)
		}
	}
}

// taken is a sink that records entries with their marks, until it fails.
type taken struct {
	build.Sink

	got    []string
	broken error
}

func (s *taken) Output(entries []build.Entry) error {
	for _, e := range entries {
		s.got = append(s.got, fmt.Sprintf("%q%s %s", e.Text, e.Ending(), e.At.Format("05")))
	}
	return s.broken
}

// TestSecretsAreMaskedWhereverReadsCutThem: between any two bytes, and in a line that is given out before it ends.
func TestSecretsAreMaskedWhereverReadsCutThem(t *testing.T) {
	t.Parallel()
	const secret, text = "correct horse", "say correct horse battery\n"
	for cut := range len(text) {
		var sink printed
		o := attempt.NewOutput(&sink, false, mask.NewSet(secret))
		for _, part := range []string{text[:cut], text[cut:]} {
			if n, err := o.Write([]byte(part)); err != nil || n != len(part) {
				t.Fatal(n, err)
			}
		}
		if err := errors.Join(o.Flush(), o.Close()); err != nil {
			t.Fatal(err)
		}
		if all := strings.Join(sink.got, "\n"); strings.Contains(all, "horse") || !strings.Contains(all, "battery") ||
			!strings.HasPrefix(all, "say ") {
			t.Errorf("cut at %d: %q", cut, sink.got)
		}
	}
}

// TestTheBeginningOfASecretIsHeldBack: the next bytes may be the rest. At the end a few bytes are printed, and more
// are masked.
func TestTheBeginningOfASecretIsHeldBack(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"say c": "say c", "say correct ": "say ***"} {
		var sink printed
		o := attempt.NewOutput(&sink, false, mask.NewSet("correct horse"))
		o.Take([]byte(text), time.Now())
		if err := o.Flush(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"say +"}, sink.got); diff != "" {
			t.Errorf("%q, flushed: %s", text, diff)
		}
		if err := o.Close(); err != nil {
			t.Fatal(err)
		}
		if got := strings.ReplaceAll(strings.Join(sink.got, ""), "+", ""); got != want {
			t.Errorf("%q, closed: %q, want %q", text, got, want)
		}
	}
}

func TestTheEndOfAStreamIsItsLastLine(t *testing.T) {
	t.Parallel()
	at := time.Unix(5, 0)
	for text, want := range map[string][]string{
		"a\nb\r\nc": {`"a"` + "\n 05", `"b"` + "\r\n 05", `"c" 05`},
		"a\n":       {`"a"` + "\n 05"},
		"":          nil,
	} {
		var sink taken
		o := attempt.NewOutput(&sink, true, nil)
		o.Take([]byte(text), at)
		if len(sink.got) != 0 {
			t.Errorf("%q: stored before Put: %q", text, sink.got)
		}
		if err := errors.Join(o.Put(), o.Close(), o.Close()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, sink.got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestALogThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	full := errors.New("the disk is full")
	for name, do := range map[string]func(*attempt.Output) error{
		"Write": func(o *attempt.Output) error { _, err := o.Write([]byte("a\n")); return err },
		"Flush": func(o *attempt.Output) error { o.Take([]byte("a"), time.Now()); return o.Flush() },
		"Close": func(o *attempt.Output) error { o.Take([]byte("a"), time.Now()); return o.Close() },
		"Put":   func(o *attempt.Output) error { o.Take([]byte("a\n"), time.Now()); return o.Put() },
	} {
		sink := &taken{broken: full}
		o := attempt.NewOutput(sink, false, nil)
		if err := do(o); !errors.Is(err, full) {
			t.Errorf("%s: %v", name, err)
		}
		sink.broken = nil
		if err := o.Close(); err != nil || strings.Count(strings.Join(sink.got, " "), `"a"`) != 1 {
			t.Errorf("%s: what was refused is stored once more: %q, %v", name, sink.got, err)
		}
	}
}
