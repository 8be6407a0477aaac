//go:build !services

package aggregator_test

import "testing"

// servers start databases that need a server: none without the build tag services.
var servers map[string]func(*testing.T) string
