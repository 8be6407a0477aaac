package attempt_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
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
		{"\nnext", attempt.OutputPause * 3, []string{""}}, {" line", attempt.OutputPause*4 - 1, nil}, {" grows", attempt.OutputPause * 4, []string{"next line grows+"}},
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
