//go:build !services

package conductor_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// sharedDrivers open a ledger on a database that needs a server: none without the build tag services.
var sharedDrivers map[string]func(*testing.T) (ledger.Driver, error)
