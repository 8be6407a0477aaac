package testresult

import (
	"strings"
	"testing"
)

func TestAFileThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	p := newParser(strings.NewReader("<testsuite>\n"+strings.Repeat(" ", 1000)+"</testsuite>"), "", NewRoom())
	p.source.size = maxSize - 500 // as if that much had been read
	err := p.run(&junit{parser: p}, "testsuite")
	if err == nil || err.Error() != "line 2: the file is larger than 256 MiB" {
		t.Error(err)
	}
}
