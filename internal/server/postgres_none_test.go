//go:build !services

package server_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/servertest"
)

// sharedStores are the databases that need a server: none without the build tag services.
var sharedStores map[string]func(testing.TB) *servertest.World
