package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// startOf reads the boot, and the start in ticks since then, which /proc/PID/stat has as field 22. The second field is the name, in
// parentheses, and may hold anything.
func startOf(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return "", os.ErrProcessDone
	}
	if err != nil {
		return "", err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const state, start = 0, 22 - 3 // counted from the state, which is field 3
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields after the name", pid, len(fields))
	}
	if fields[state] == "Z" || fields[state] == "X" {
		return "", os.ErrProcessDone
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(string(boot)) + " " + fields[start], nil
}
