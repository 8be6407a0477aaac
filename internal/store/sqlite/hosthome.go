package sqlite

import "github.com/waybill-dev/waybill/internal/queue"

// BindHost stores nothing: one home has the database.
func (t *tx) BindHost(_ string, home queue.HostHome) (queue.HostHome, error) { return home, nil }

// HostHomes returns none: see BindHost.
func (t *tx) HostHomes() (map[string]queue.HostHome, error) { return nil, nil }
