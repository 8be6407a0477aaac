package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/fault"
)

// superviseName is the word by which a build step's supervisor is started: waybill supervise GRACE ARGV….
// People do not run it, and nothing of the command line is set up for it.
const superviseName = "supervise"

// supervise runs a build step when the command line says so; ok is false when it says something else.
func supervise(arguments []string) (status int, ok bool) {
	if len(arguments) < 3 || arguments[0] != superviseName {
		return 0, false
	}
	grace, err := time.ParseDuration(arguments[1])
	if err == nil {
		status, err = command.Supervise(arguments[2:], grace)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "waybill: %v\n", err)
		return fault.ExitUnavailable, true
	}
	return status, true
}
