// Package controlgroup removes the control groups of a container engine that was killed.
package controlgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Prefix begins the names of the groups that hold the containers of the testbed's Engines.
const Prefix = "waybill-testbed-docker-"

// patience bounds the wait for killed processes.
const patience = 2 * time.Minute

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
