package testbed

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// Freeze stops the API server without ending it: its connections stay open, and nothing answers until Thaw.
func (c *Cluster) Freeze(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGSTOP)
}

// Thaw ends Freeze.
func (c *Cluster) Thaw(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGCONT)
}

func (c *Cluster) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(int(c.server.processID()), signal); err != nil {
		t.Fatalf("testbed: signal the API server: %v", err)
	}
}

// Backup copies the data of the cluster, which restarts for that. Restore brings the data back, as from a backup: all
// later changes are lost, and versions of objects are used again.
func (c *Cluster) Backup(t testing.TB) (restore func(testing.TB)) {
	t.Helper()
	data, copied := filepath.Join(c.folder, "etcd"), filepath.Join(c.folder, "backup")
	c.whileStopped(t, func() error { return os.CopyFS(copied, os.DirFS(data)) })
	return func(t testing.TB) {
		t.Helper()
		c.whileStopped(t, func() error {
			if err := os.RemoveAll(data); err != nil {
				return err
			}
			return os.CopyFS(data, os.DirFS(copied))
		})
	}
}

// whileStopped does f while the API server and its store are stopped.
func (c *Cluster) whileStopped(t testing.TB, f func() error) {
	t.Helper()
	c.server.kill(t)
	c.store.kill(t)
	if err := f(); err != nil {
		t.Fatalf("testbed: copy the data of the cluster: %v", err)
	}
	c.store.start(t)
	c.server.start(t)
}
