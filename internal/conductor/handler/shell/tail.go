package shell

import "strings"

// tail keeps the last maxStream bytes that are written to it.
type tail struct {
	kept []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - maxStream; over > 0 {
		t.cut = true
		if over > maxStream { // else it is moved with every write
			t.kept = append(t.kept[:0], t.kept[over:]...)
		}
	}
	return len(p), nil
}

// text is what was kept, and whether there was more before.
func (t *tail) text() (string, bool) {
	kept := t.kept[max(0, len(t.kept)-maxStream):]
	return strings.ToValidUTF8(string(kept), "�"), t.cut
}
