package git

import (
	"bytes"
	"fmt"
)

// Bounds of git's output and memory. A repository or a server may have it print without end, and git keeps all branches
// and tags of a server in memory before it prints the first.
const (
	mostPrinted  = 128 << 20 // bytes of the standard output: the paths of more than a million files
	mostGitTakes = 2 << 30   // bytes of the address space of a git that lists a server's branches and tags
)

// printed keeps its input, up to a bound.
type printed struct {
	text bytes.Buffer
	most int
	over bool // there was more
}

func (p *printed) Write(text []byte) (int, error) {
	if p.text.Len()+len(text) > p.most {
		p.over = true
		return 0, fmt.Errorf("more than %d bytes", p.most)
	}
	return p.text.Write(text)
}
