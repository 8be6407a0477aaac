package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ownCPU returns the CPU time of this process.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// serverCPU returns the CPU time of the server that a backend belongs to: of its processes, living
// and ended. 0 where it is not on this machine.
func serverCPU(backend int) time.Duration {
	of, ok := processOf(backend)
	if !ok || !strings.HasPrefix(of.name, "postgres") {
		return 0
	}
	parent, ok := processOf(of.parent)
	if !ok {
		return 0
	}
	total := parent.own + parent.ended
	all, _ := filepath.Glob("/proc/[0-9]*") // the pattern is right
	for _, path := range all {
		pid, _ := strconv.Atoi(filepath.Base(path))
		if child, ok := processOf(pid); ok && child.parent == of.parent {
			total += child.own
		}
	}
	return total
}

// process is a line of /proc: whose child it is, what it used, and what its children used that have
// ended.
type process struct {
	name       string
	parent     int
	own, ended time.Duration
}

// tick is the unit of times in /proc, the same on every Linux.
const tick = 10 * time.Millisecond

func processOf(pid int) (p process, ok bool) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false
	}
	_, name, _ := strings.Cut(string(line), "(")
	end := strings.LastIndex(name, ")")
	if end < 0 {
		return p, false
	}
	fields := strings.Fields(name[end+1:]) // fields of proc(5) from the third, the state
	if len(fields) < 15 {
		return p, false
	}
	number := func(i int) int {
		n, _ := strconv.Atoi(fields[i-3])
		return n
	}
	return process{
		name:   name[:end],
		parent: number(4),
		own:    time.Duration(number(14)+number(15)) * tick,
		ended:  time.Duration(number(16)+number(17)) * tick,
	}, true
}
