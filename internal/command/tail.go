package command

import "strings"

// Tail keeps the last Limit bytes that are written to it, such as the last output of a command.
type Tail struct {
	Limit int
	kept  []byte
	cut   bool
}

func (t *Tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.Limit; over > 0 {
		t.cut = true
		if over > t.Limit { // else it is moved with every write
			t.kept = append(t.kept[:0], t.kept[over:]...)
		}
	}
	return len(p), nil
}

// Text returns the kept text, and whether more came before it.
func (t *Tail) Text() (text string, cut bool) {
	kept := t.kept[max(0, len(t.kept)-t.Limit):]
	return strings.ToValidUTF8(string(kept), "�"), t.cut
}
