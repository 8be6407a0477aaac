package queue

import "context"

// HostHome is a home that holds local hosts. On a shared database local://NAME is a folder of one home, and local:///DIR a
// folder of that home's machine: the home whose process begins the first step of a host keeps the host.
type HostHome struct {
	ID    string `json:"id"`    // the same for all processes with this home
	Place string `json:"place"` // machine and folder, for people
}

// Homes keeps which home holds each local host.
type Homes struct{ queue *Queue }

// NewHomes returns the homes of the hosts of a queue's instances.
func NewHomes(q *Queue) *Homes { return &Homes{queue: q} }

// BindHost keeps a local host, by its address, for a home unless another has it, and returns the home that has it. On
// the embedded log that is always the caller's. A binding is never removed, so a host's folder is always of the same
// home.
func (h *Homes) BindHost(ctx context.Context, address string, home HostHome) (keeper HostHome, err error) {
	err = h.queue.write(ctx, "bind host "+address, func(t *txn) error {
		keeper, err = t.BindHost(address, home)
		return err
	})
	return keeper, err
}

// HostHomes returns the homes of local hosts, by address; none on the embedded log.
func (h *Homes) HostHomes(ctx context.Context) (homes map[string]HostHome, err error) {
	err = h.queue.list(ctx, "read the homes of hosts", func(tx rows) error {
		homes, err = tx.HostHomes()
		return err
	})
	return homes, err
}
