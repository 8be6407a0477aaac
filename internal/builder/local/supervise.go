package local

import (
	"fmt"
	"os"

	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
)

// superviseName is the word by which a build's supervisors are started: waybill supervise.
// People do not run it, and nothing of the command line is set up for it.
const superviseName = "supervise"

// Supervise runs steps of a build when the command line requests it; ok is false for other commands.
func Supervise(arguments []string) (status int, ok bool) {
	if len(arguments) != 1 || arguments[0] != superviseName {
		return 0, false
	}
	if err := command.Supervise(); err != nil {
		fmt.Fprintf(os.Stderr, "waybill: %v\n", err)
		return fault.ExitUnavailable, true
	}
	return fault.ExitDone, true
}
