//go:build !linux

package command

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// startOf runs ps, which prints nothing for a process that has ended.
func startOf(pid int) (string, error) {
	ps := exec.Command("ps", "-o", "state=,lstart=", "-p", strconv.Itoa(pid)) //nolint:noctx // it answers at once
	ps.Env = append(os.Environ(), "LC_ALL=C")
	out, err := ps.Output()
	state, start, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	if _, exited := errors.AsType[*exec.ExitError](err); exited || state == "" || strings.HasPrefix(state, "Z") {
		return "", os.ErrProcessDone
	}
	return strings.TrimSpace(start), err
}
