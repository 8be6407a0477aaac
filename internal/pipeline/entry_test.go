package pipeline

import "testing"

func TestClassesAreReadAsWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []Class{Fact, Note, Change} {
		text, err := c.MarshalText()
		var read Class
		if err := read.UnmarshalText(text); err != nil || read != c {
			t.Errorf("%s is read as %q, %v", text, read, err)
		}
		if err != nil {
			t.Error(err)
		}
	}
	c := Note
	if err := c.UnmarshalText([]byte("bogus")); err == nil || c != Note {
		t.Errorf("bogus is read as %q, %v", c, err)
	}
	if text := Class(9).String(); text != "" {
		t.Errorf("class 9 is written %q", text)
	}
}
