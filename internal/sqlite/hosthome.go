package sqlite

import "github.com/waybill-dev/waybill/internal/queue"

// Rows of package queue: homes of local hosts. A file belongs to one home, so nothing is stored.

// BindHost returns the home that it is given: the database has one home.
func (t *tx) BindHost(_ string, home queue.HostHome) (queue.HostHome, error) { return home, nil }

// HostHomes returns none, since BindHost stores none.
func (t *tx) HostHomes() (map[string]queue.HostHome, error) { return nil, nil }
