package sqlite

import "github.com/waybill-dev/waybill/internal/ledger"

// BindHost stores nothing: one home has the database.
func (t *tx) BindHost(_ string, home ledger.HostHome) (ledger.HostHome, error) { return home, nil }

// HostHomes returns none: see BindHost.
func (t *tx) HostHomes() (map[string]ledger.HostHome, error) { return nil, nil }
