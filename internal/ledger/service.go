package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
)

// ServiceKey names the rows that a request of a platform is about.
type ServiceKey struct {
	Instance string // id of the service instance
	Binding  string // id of the binding; "": none
}

// ServiceState is a service instance as a request finds it.
type ServiceState struct {
	Row     *services.Instance // nil: there is none
	Thread  *queue.ActionState // action of the row's operation; nil: it is not retained any more
	Binding *services.Binding  // nil: there is none
	Now     time.Time          // by the database's clock
}

// ServiceChange is a decision about a service instance. The zero value changes nothing.
type ServiceChange struct {
	Row    *services.Instance // row to store; nil: it stays as it is
	Start  *ServiceOperation  // operation to start; nil: none
	Bind   *services.Binding  // binding to store; nil: none
	Unbind bool               // the binding of the key is to be deleted
}

// ServiceOperation is an operation to start. Operations with other verbs that live are requested to stop, and it
// begins once they have ended. If it has a row, that names its id.
type ServiceOperation struct {
	Verb   services.Verb
	Action action.Action // with an id; kind and unique key are set here, and so is an empty name
}

// Operate has a request decide about a service instance, whose row is locked, and stores the decision: row and
// operation in one transaction. Of identical requests at a time one finds the row of the other. decide only computes.
// It may run again, also after ctx has ended, so its results are read only when there was no error.
//
// Errors: that of decide, and then nothing is stored; fault.Invalid for a row or an action that cannot be stored;
// fault.DuplicateKey when an action lives that does the same, as when a person has repeated an ended operation;
// fault.Unavailable when an end that the operation causes cannot be recorded now.
func (l *Ledger) Operate(ctx context.Context, key ServiceKey, decide func(ServiceState) (ServiceChange, error)) error {
	o := &operateCall{key: key, decide: decide}
	if err := l.operations.Do(ctx, o); err != nil {
		return err
	}
	return o.refused
}

const (
	changingService = "change a service instance"
	mostOperations  = 64 // decisions that share a transaction
)

// operateCall is a call of Operate. Calls share transactions, since each commit waits for the disk.
type operateCall struct {
	key     ServiceKey
	decide  func(ServiceState) (ServiceChange, error)
	refused error // error of decide, this call's alone
}

// operateAll has calls decide one after the other. All rows are locked before the first thread, as everywhere.
func (l *Ledger) operateAll(ctx context.Context, calls []*operateCall) error {
	ids := make([]string, len(calls))
	for i, o := range calls {
		ids[i] = o.key.Instance
	}
	return l.DB.Write(ctx, changingService, func(tx *store.Tx) error {
		if err := l.Services.LockAllIn(tx, ids); err != nil {
			return err
		}
		for _, o := range calls {
			if err := l.operate(tx, o); err != nil {
				return err
			}
		}
		return nil
	})
}

func (l *Ledger) operate(tx *store.Tx, o *operateCall) error {
	row, err := l.Services.LockIn(tx, o.key.Instance)
	if err != nil {
		return err
	}
	state, err := l.serviceState(tx, row, o.key)
	if err != nil {
		return err
	}
	var change ServiceChange
	if change, o.refused = o.decide(state); o.refused != nil {
		return nil //nolint:nilerr // it is the answer to this call alone
	}
	return l.changeService(tx, o.key, change)
}

// Service reads a service instance with its operation, and a binding of it, as one state of the database. Errors:
// fault.Invalid for an id that no service instance or binding can have.
func (l *Ledger) Service(ctx context.Context, key ServiceKey) (state ServiceState, err error) {
	err = l.DB.Read(ctx, "read a service instance", func(tx *store.Tx) error {
		row, err := l.Services.ReadIn(tx, key.Instance)
		if err != nil {
			return err
		}
		state, err = l.serviceState(tx, row, key)
		return err
	})
	return state, err
}

// ServicePage reads at most limit service instances after an id, in the order of their ids byte by byte, with their
// operations, as one state of the database. See services.Services.List.
func (l *Ledger) ServicePage(ctx context.Context, after string, limit int) (page []ServiceState, err error) {
	err = l.DB.List(ctx, "list service instances", func(tx *store.Tx) error {
		page = nil
		rows, err := l.Services.ListIn(tx, after, limit)
		if err != nil {
			return err
		}
		var operations []action.ID
		for _, row := range rows {
			operations = append(operations, row.Operation)
		}
		threads, err := l.FindAll(tx, operations)
		for i := range rows {
			page = append(page, ServiceState{Row: &rows[i], Thread: threads[rows[i].Operation], Now: tx.Now()})
		}
		return err
	})
	return page, err
}

// serviceState reads the action and the binding that belong to the row of a service instance.
func (l *Ledger) serviceState(tx *store.Tx, row *services.Instance, key ServiceKey) (state ServiceState, err error) {
	state = ServiceState{Row: row, Now: tx.Now()}
	if row != nil {
		if state.Thread, err = l.Find(tx, row.Operation); err != nil {
			return state, err
		}
	}
	if key.Binding != "" {
		state.Binding, err = l.Services.BindingIn(tx, key.Instance, key.Binding)
	}
	return state, err
}

// changeService stores a decision. The row goes first: the operation may end others at once, and their ends are
// recorded in the row as it is then.
func (l *Ledger) changeService(tx *store.Tx, key ServiceKey, change ServiceChange) error {
	if err := change.check(key); err != nil {
		return err
	}
	if change.Row != nil {
		if err := l.Services.PutIn(tx, *change.Row); err != nil {
			return err
		}
	}
	if start := change.Start; start != nil {
		a := start.Action
		a.Kind, a.UniqueKey = services.Kind, services.Key(key.Instance, start.Verb)
		if a.Name == "" {
			a.Name = string(start.Verb) + " " + key.Instance
		}
		if err := l.StartAfter(tx, a, services.OtherKeys(key.Instance, start.Verb)); err != nil {
			return err
		}
	}
	if change.Bind != nil {
		return l.Services.BindIn(tx, *change.Bind)
	}
	if change.Unbind {
		return l.Services.UnbindIn(tx, key.Instance, key.Binding)
	}
	return nil
}

// check refuses decisions whose parts do not fit together: a mistake of the program.
func (c ServiceChange) check(key ServiceKey) error {
	switch {
	case c.Row != nil && c.Row.ID != key.Instance, c.Bind != nil && (ServiceKey{c.Bind.Instance, c.Bind.ID}) != key:
		return fault.New(fault.Internal, "a decision about service instance %q is about another one", key.Instance)
	case c.Start != nil && c.Start.Action.ID.IsZero():
		return fault.New(fault.Internal, "the operation of service instance %q has no id", key.Instance)
	case c.Start != nil && c.Row != nil &&
		(c.Row.Operation != c.Start.Action.ID || c.Row.Verb != c.Start.Verb || c.Row.End != 0):
		return fault.New(fault.Internal, "the row of service instance %q does not name its operation", key.Instance)
	}
	return nil
}
