package pipeline

import (
	"fmt"
	"strings"
	"testing"
)

// transcript returns the moves that led to a violation as a file for testdata: with what each
// command prints, as far as the engine gets.
func (r *modelRun) transcript(t *testing.T, v *modelViolation) string {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s\n", strings.ReplaceAll(v.text, "\n", " "))
	p := &player{world: &world{t: recorder{t}, engine: New("shop"), now: noon}}
	for _, m := range append([]modelMove{{kind: "define"}}, v.moves...) {
		command := []string{m.String()}
		if m.kind == "define" || m.kind == "edit" {
			command = []string{m.kind}
			for _, line := range definitionLines(r.world.versions[m.number]) {
				command = append(command, "  "+line)
			}
		}
		fmt.Fprintf(&text, "\n%s\n----\n", strings.Join(command, "\n"))
		failure := p.try(command)
		text.WriteString(p.out.String())
		p.out.Reset()
		if failure != "" {
			fmt.Fprintf(&text, "\n# %s\n", failure)
			break
		}
	}
	return text.String()
}

// try plays a command, and returns what it fails with.
func (p *player) try(command []string) (failure string) {
	defer func() {
		if r := recover(); r != nil {
			failure = fmt.Sprint(r)
		}
	}()
	p.command(command)
	return ""
}

// recorder turns a fatal failure into a panic, which try returns.
type recorder struct{ testing.TB }

func (recorder) Helper() {}

func (recorder) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
