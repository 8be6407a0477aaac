package goldentest_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/goldentest"
)

func TestBlocksKeepWhatIsNotPrinted(t *testing.T) {
	t.Parallel()
	text := "# a remark\n\none\n----\nold\nolder\n\n# about it\ntwo\n  more\n----\n\nwithout an end\n"
	var commands []string
	got := goldentest.Blocks(text, func(command []string) string {
		commands = append(commands, strings.Join(command, "|"))
		return command[0] + " printed\n"
	})
	want := "# a remark\n\none\n----\none printed\n\n# about it\ntwo\n  more\n----\ntwo printed\n\nwithout an end\n"
	if got != want || strings.Join(commands, " ") != "one two|  more" {
		t.Errorf("%q of %q, want %q", got, commands, want)
	}
}
