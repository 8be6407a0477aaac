package cli

import (
	"bufio"
	"fmt"
	"strings"
)

// ask shows an error and a question, and reads y or n from the terminal. Without one the answer is no.
func (a *app) ask(question string, shown error) bool {
	if !onTerminal(a.in) || !onTerminal(a.err) {
		return false
	}
	if shown != nil {
		fmt.Fprintf(a.err, "waybill: %v\n", shown)
	}
	fmt.Fprintf(a.err, "%s [y/N] ", question)
	answer, err := bufio.NewReader(a.in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(a.err)
		return false
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes"
}
