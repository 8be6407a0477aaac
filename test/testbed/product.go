package testbed

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/childtest"
)

// Product is the program that is tested. It is made when it is first asked for, and linked statically, so that an image needs nothing
// but it. Remove removes it.
type Product struct {
	once    sync.Once
	folder  string
	program string
	err     error
}

// Path returns the path of the program. root is the folder of the product's module.
func (p *Product) Path(t testing.TB, root string) string {
	t.Helper()
	p.once.Do(func() { p.err = p.make(root) })
	if p.err != nil {
		t.Fatalf("testbed: make waybill: %v", p.err)
	}
	return p.program
}

// make is not bound to a test: the next one needs the program, too.
func (p *Product) make(root string) (err error) {
	if p.folder, err = os.MkdirTemp("", "waybill-program-"); err != nil {
		return err
	}
	if p.program, err = childtest.Program(context.Background(), root, p.folder); err != nil {
		return errors.Join(err, p.Remove())
	}
	return nil
}

// Remove removes the program, if it was made. Call it after all tests.
func (p *Product) Remove() error {
	if p.folder == "" {
		return nil
	}
	return os.RemoveAll(p.folder)
}
