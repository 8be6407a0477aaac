package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/command"
)

// TestABusyProgramFile: a program whose file is still open for writing starts when the file is closed,
// and a file that stays open is an error that names it.
func TestABusyProgramFile(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]time.Duration{"closed soon": 50 * time.Millisecond, "not closed": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			program := filepath.Join(t.TempDir(), "program")
			file, err := os.OpenFile(program, os.O_CREATE|os.O_WRONLY, 0o700) //nolint:gosec // a program
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if _, err := file.WriteString("#!/bin/sh\nexit 7\n"); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(open, func() { _ = file.Close() })
			exit, err := command.Command{Argv: []string{program}}.Run(t.Context())
			if open == time.Hour {
				if err == nil || strings.Count(err.Error(), program) != 2 || !strings.Contains(err.Error(), "busy") {
					t.Errorf("run a program whose file stays open: %v, %v; want an error that says busy", exit, err)
				}
			} else if err != nil || exit.Code != 7 {
				t.Errorf("run a program whose file was closed: %v, %v; want exit status 7", exit, err)
			}
		})
	}
}
