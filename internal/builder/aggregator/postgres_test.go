//go:build services

package aggregator_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/pgtest"
)

// servers start databases that need a server.
var servers = map[string]func(*testing.T) string{"postgres": func(t *testing.T) string { return pgtest.URL(t) }}
