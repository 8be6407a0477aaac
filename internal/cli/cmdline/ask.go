package cmdline

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// Asker prints a question and reports whether the answer was yes. Without a terminal the answer is no.
type Asker func(ctx context.Context, question string) bool

// CanAsk reports whether a person can answer at a terminal.
func (a *App) CanAsk() bool { return OnTerminal(a.In) && OnTerminal(a.Err) }

// Confirm prints a question and reads y or n from the terminal. Without a terminal, and when ctx ends, the answer is no.
func (a *App) Confirm(ctx context.Context, question string) bool {
	if !a.CanAsk() {
		return false
	}
	fmt.Fprintf(a.Err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // it may outlive the prompt: a read from a terminal cannot be interrupted
		answer, _ := bufio.NewReader(a.In).ReadString('\n')
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return false
	case answer := <-answers:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes"
	}
}
