//go:build linux

package chaos

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// Disk is a small file system of its own that can be full.
type Disk struct{ folder string }

// NewDisk mounts one of so many MiB on a folder. It needs root, as the set-up of the tests does.
func NewDisk(folder string, mebibytes int) (*Disk, error) {
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, fmt.Sprintf("size=%dm", mebibytes)); err != nil {
		return nil, fmt.Errorf("mount a small tmpfs (this needs root): %w", err)
	}
	return &Disk{folder}, nil
}

func (d *Disk) ballast() string { return filepath.Join(d.folder, "ballast") }

// Fill writes until the disk is full.
func (d *Disk) Fill() error {
	f, err := os.Create(d.ballast())
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 4096); ; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// Free makes room again.
func (d *Disk) Free() error { return os.Remove(d.ballast()) }

// Close unmounts it, also while files of it are open.
func (d *Disk) Close() error { return syscall.Unmount(d.folder, syscall.MNT_DETACH) }
