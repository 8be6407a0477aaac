package command

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
)

// TestAHiddenProcessKeepsItsEnvironment from other processes of its user; root may read everything.
func TestAHiddenProcessKeepsItsEnvironment(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := childtest.Command(t, self, hideArgument)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil { // it is hidden
		t.Fatal(err)
	}
	file := "/proc/" + strconv.Itoa(cmd.Process.Pid) + "/environ"
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getuid() != 0 {
		if _, err := os.ReadFile(file); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("reading %s: %v, of mode %v", file, err, info.Mode())
		}
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// hide hides this process and waits until standard input ends.
func hide() error {
	if err := Hide(); err != nil {
		return err
	}
	_, _ = os.Stdout.WriteString(".")
	_, _ = os.Stdin.Read(make([]byte, 1))
	return nil
}
