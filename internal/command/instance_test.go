package command_test

import (
	"errors"
	"os"
	"syscall"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
	"github.com/waybill-dev/waybill/internal/command"
)

func TestAnInstanceIsNeverAnotherProcess(t *testing.T) {
	t.Parallel()
	c := childtest.Command(t, "sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	started, err := command.InstanceOf(c.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if alive, err := started.Alive(); !alive || err != nil {
		t.Errorf("alive %v, %v", alive, err)
	}
	former := started
	former.Start += "0"
	if alive, err := former.Alive(); alive || err != nil {
		t.Errorf("one that had the same PID before: alive %v, %v", alive, err)
	}
	if err := former.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("it was signaled: %v", err)
	}
	if alive, _ := started.Alive(); !alive {
		t.Fatal("the other process was killed")
	}
	if err := started.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // killed
	if alive, err := started.Alive(); alive || err != nil {
		t.Errorf("after its end: alive %v, %v", alive, err)
	}
	if _, err := command.InstanceOf(0); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("process 0: %v", err)
	}
}
