package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// asker asks a question and reports whether the answer was yes. Without a terminal the answer is no.
type asker func(ctx context.Context, question string) bool

// canAsk reports whether a person can answer at a terminal.
func (a *app) canAsk() bool { return onTerminal(a.in) && onTerminal(a.err) }

// ask prints a question and reads y or n from the terminal. Without a terminal, and when ctx ends, the answer is no.
func (a *app) ask(ctx context.Context, question string) bool {
	if !a.canAsk() {
		return false
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // it may outlive the question: a read from a terminal cannot be interrupted
		answer, _ := bufio.NewReader(a.in).ReadString('\n')
		answers <- answer
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(a.err)
		return false
	case answer := <-answers:
		answer = strings.ToLower(strings.TrimSpace(answer))
		return answer == "y" || answer == "yes"
	}
}
