//go:build !services

package step

import "testing"

// busyboxShell is empty without the build tag services: not every machine has busybox.
var busyboxShell map[string]func(t *testing.T) string
