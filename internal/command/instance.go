package command

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Instance is one run of a program on this machine. A PID alone is not: it is given to another process some time after the end.
type Instance struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // start of the process, as the system reports it; on Linux with the boot
}

// InstanceOf returns the known state of a process that runs now. It returns os.ErrProcessDone if none has the PID, or
// if it has ended and only its exit status is left.
func InstanceOf(pid int) (Instance, error) {
	if pid < 1 {
		return Instance{}, os.ErrProcessDone
	}
	start, err := startOf(pid)
	if err != nil {
		return Instance{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return Instance{PID: pid, Start: start}, nil
}

// Alive reports whether this very process runs. An error means that it is not known.
func (i Instance) Alive() (bool, error) {
	now, err := InstanceOf(i.PID)
	if errors.Is(err, os.ErrProcessDone) {
		return false, nil
	}
	return err == nil && now == i, err
}

// Signal sends a signal to this very process, and never to another that has its PID now. It returns os.ErrProcessDone
// if the process has ended.
func (i Instance) Signal(signal syscall.Signal) error {
	process, err := os.FindProcess(i.PID) // on Linux a handle, which stays with the process that it was opened for
	if err != nil {
		return fmt.Errorf("signal process %d: %w", i.PID, err)
	}
	defer func() { _ = process.Release() }()
	alive, err := i.Alive()
	switch {
	case err != nil:
		return err
	case !alive:
		return os.ErrProcessDone
	}
	return process.Signal(signal)
}
