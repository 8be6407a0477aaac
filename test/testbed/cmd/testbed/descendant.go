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

// descendant is a process below this one.
type descendant struct {
	pid  int
	name string
	dead bool // ended, waits to be collected by its parent
}

// endDescendants ends all processes below this one and returns those that had to
// be killed. What is ending anyway gets a few seconds for it, unless there is a hurry.
func endDescendants(hurry bool) (killed []string) {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	patient := time.Now().Add(5 * time.Second)
	for {
		collect()
		running := descendants()
		if len(running) == 0 {
			return killed
		}
		if hurry || time.Now().After(patient) {
			killed = append(killed, kill(running)...)
			hurry = true // what these leave in their turn
		}
		<-again.C
	}
}

func kill(running []descendant) (killed []string) {
	for _, d := range running {
		if d.dead {
			continue
		}
		if syscall.Kill(d.pid, syscall.SIGKILL) == nil {
			killed = append(killed, fmt.Sprintf("%s (%d)", d.name, d.pid))
		}
	}
	return killed
}

// collect takes the exit status of every dead child, so that it disappears.
func collect() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || err != nil {
			return
		}
	}
}

// descendants returns the processes below this one, parents first.
func descendants() []descendant {
	children := map[int][]descendant{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well-formed
	for _, stat := range stats {
		if parent, d, ok := readStat(stat); ok {
			children[parent] = append(children[parent], d)
		}
	}
	found := children[os.Getpid()]
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i].pid]...)
	}
	return found
}

// readStat reads a line such as "17 (a name) S 1 …": the name may hold anything, what follows its last parenthesis is
// state and parent. A process may be gone in the meantime.
func readStat(path string) (parent int, d descendant, ok bool) {
	line, err := os.ReadFile(path)
	if err != nil {
		return 0, d, false
	}
	pid, rest, _ := strings.Cut(string(line), " (")
	end := strings.LastIndex(rest, ") ")
	if end < 0 {
		return 0, d, false
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 2 {
		return 0, d, false
	}
	d.name, d.dead = rest[:end], fields[0] == "Z"
	d.pid, err = strconv.Atoi(pid)
	if err != nil {
		return 0, d, false
	}
	parent, err = strconv.Atoi(fields[1])
	return parent, d, err == nil
}
