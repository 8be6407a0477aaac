package visitor

import (
	"bufio"
	"fmt"
	"os"
	"regexp"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// Terminal is a terminal whose other end a program writes to: waybill up prints an address that logs its reader in only at one.
type Terminal struct {
	Theirs *os.File // the program's end

	ours *os.File
}

// OpenTerminal makes a terminal. It ends with the test.
func OpenTerminal(t testing.TB) Terminal {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	if err := unix.IoctlSetPointerInt(int(ours.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	number, err := unix.IoctlGetInt(int(ours.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	theirs, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("open a terminal: %v", err)
	}
	t.Cleanup(func() { theirs.Close() })
	return Terminal{theirs, ours}
}

var loginAddress = regexp.MustCompile(`https?://\S+/login\?code=\S+`)

// Login returns the address that the program prints, and keeps reading, so that the program can always write.
func (term Terminal) Login(t testing.TB) string {
	t.Helper()
	scanner := bufio.NewScanner(term.ours)
	for scanner.Scan() {
		if address := loginAddress.FindString(scanner.Text()); address != "" {
			go func() {
				for scanner.Scan() {
				}
			}()
			return address
		}
	}
	t.Fatalf("waybill up printed no address to log in: %v", scanner.Err())
	return ""
}
