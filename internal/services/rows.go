package services

import (
	"time"

	"github.com/waybill-dev/waybill/internal/store"
)

// Driver is a database that keeps service instances.
type Driver interface {
	// ServiceRows returns the rows of service instances in a transaction of the driver.
	ServiceRows(store.Rows) Rows
}

// Query selects service instances in the order of their ids, byte by byte. All conditions hold.
type Query struct {
	IDs   []string // nil: all
	After string   // only ids after this one
	Limit int      // 0: all
}

// Rows is service instances and bindings in one transaction. Methods that write need the row of the service instance
// locked. The error of a method that only writes may be returned by a later one, or by the commit.
type Rows interface {
	// LockServiceInstances locks and reads those that exist, in the order of their ids.
	LockServiceInstances(ids []string) ([]Instance, error)
	// InsertServiceInstance stores a row that was not there when it was to be locked. The transaction runs again when
	// another has just stored it.
	InsertServiceInstance(i Instance) error
	// UpdateServiceInstance writes all columns of a row.
	UpdateServiceInstance(i Instance) error
	ServiceInstances(q Query) ([]Instance, error)
	// ForgetServiceInstances deletes rows of service instances that were gone before a moment, the oldest first, with
	// their bindings, and returns how many.
	ForgetServiceInstances(before time.Time, limit int) (int, error)

	// PutServiceBinding stores a binding instead of its former row.
	PutServiceBinding(b Binding) error
	ServiceBinding(instance, id string) (b Binding, ok bool, err error)
	// DeleteServiceBindings deletes a binding of a service instance; every one if the id is "".
	DeleteServiceBindings(instance, id string) error
}
