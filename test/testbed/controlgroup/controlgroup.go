// Package controlgroup makes the control groups of a node's pods, and removes those of a container engine or node that was killed.
package controlgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Prefix begins the names of the groups that hold the containers of the testbed's Engines and nodes.
const Prefix = "waybill-testbed-"

// patience bounds the wait for killed processes.
const patience = 2 * time.Minute

// Make makes a control group in every hierarchy, which may use what its parent may.
func Make(name string) error {
	const top = "/sys/fs/cgroup"
	hierarchies, _ := filepath.Glob(top + "/*/tasks") // the pattern is well-formed; only the first version has this file
	if len(hierarchies) == 0 {
		return os.Mkdir(filepath.Join(top, name), 0o755)
	}
	var failed error
	for _, tasks := range hierarchies {
		parent := filepath.Dir(tasks)
		group := filepath.Join(parent, name)
		if err := os.Mkdir(group, 0o755); errors.Is(err, fs.ErrExist) {
			continue // one hierarchy has two names
		} else if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err == nil { // it is the hierarchy of cpuset
				failed = errors.Join(failed, os.WriteFile(filepath.Join(group, file), value, 0o644)) //nolint:gosec // the file exists
			}
		}
	}
	return failed
}

// Remove removes the control groups whose names begin so, in every hierarchy, once no process is in them.
func Remove(prefix string) error {
	var failed error
	for _, pattern := range []string{"/sys/fs/cgroup/" + prefix + "*", "/sys/fs/cgroup/*/" + prefix + "*"} {
		found, _ := filepath.Glob(pattern) // the pattern is well-formed
		for _, group := range found {
			failed = errors.Join(failed, removeOne(group))
		}
	}
	return failed
}

// removeOne removes a group after those below it. Processes that have been killed may take a while to end.
func removeOne(group string) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for until := time.Now().Add(patience); ; <-again.C {
		err := removeEmpty(group)
		if err == nil || time.Now().After(until) {
			return err
		}
	}
}

func removeEmpty(group string) error {
	var below []string
	err := filepath.WalkDir(group, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			below = append(below, path)
		}
		return nil
	})
	for i := len(below) - 1; i >= 0; i-- {
		if gone := os.Remove(below[i]); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			err = errors.Join(err, gone)
		}
	}
	return err
}
