//go:build !race

// Package bubbletest runs tests in bubbles of package testing/synctest, where time passes at once.
package bubbletest

import (
	"testing"
	"testing/synctest"
)

// Test runs f in a bubble.
func Test(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}
