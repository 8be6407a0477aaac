package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Rows of package queue: homes of local hosts. Instances of one database may have different homes.

// boundHost is a row of host_home.
type boundHost struct {
	address string
	home    queue.HostHome
}

// scanBoundHost reads the columns of host_home.
func scanBoundHost(row pgx.Row) (b boundHost, err error) {
	err = row.Scan(&b.address, &b.home.ID, &b.home.Place)
	return b, err
}

// BindHost keeps an address for a home unless another home has it, and returns the one that has it.
func (t *tx) BindHost(address string, home queue.HostHome) (queue.HostHome, error) {
	if err := t.do("INSERT INTO host_home (address, home, place) VALUES ($1, $2, $3) ON CONFLICT (address) DO NOTHING",
		address, home.ID, home.Place); err != nil {
		return queue.HostHome{}, err
	}
	bound, err := query(t, scanBoundHost, "SELECT address, home, place FROM host_home WHERE address = $1", address)
	if err != nil {
		return queue.HostHome{}, err
	}
	if len(bound) == 0 {
		return queue.HostHome{}, fault.New(fault.Internal, "host %s was bound to a home, and the row is missing", address)
	}
	return bound[0].home, nil
}

// HostHomes reads the homes of all local hosts, by address.
func (t *tx) HostHomes() (map[string]queue.HostHome, error) {
	bound, err := query(t, scanBoundHost, "SELECT address, home, place FROM host_home")
	homes := make(map[string]queue.HostHome, len(bound))
	for _, b := range bound {
		homes[b.address] = b.home
	}
	return homes, err
}
