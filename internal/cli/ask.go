package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"
)

// canAsk reports whether somebody sits at a terminal.
func (a *app) canAsk() bool { return onTerminal(a.in) && onTerminal(a.err) }

// ask puts a question and reads y or n from the terminal. Without a terminal, and when ctx ends, the answer is no.
func (a *app) ask(ctx context.Context, question string) bool {
	if !a.canAsk() {
		return false
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // it may outlive the question: a read from a terminal cannot be called off
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
