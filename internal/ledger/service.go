package ledger

import (
	"context"
	"slices"
	"strings"
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
	Size     int    // bytes of the request: large ones share no transaction
}

// check refuses ids that cannot be stored.
func (k ServiceKey) check() error {
	if err := services.CheckID("the service instance's id", k.Instance); err != nil || k.Binding == "" {
		return err
	}
	return services.CheckID("the binding's id", k.Binding)
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
	if err := key.check(); err != nil {
		return err
	}
	o := &operateCall{key: key, decide: decide}
	if err := l.operations.Do(ctx, o); err != nil {
		return err
	}
	return o.refused
}

const (
	changingService = "change a service instance"
	readingService  = "read a service instance"
	mostOperations  = 64      // calls that share a transaction
	mostBytes       = 1 << 20 // bytes of their requests
)

// operateCall is a call of Operate. Calls share transactions, since each commit waits for the disk.
type operateCall struct {
	key     ServiceKey
	decide  func(ServiceState) (ServiceChange, error)
	refused error // error of decide, this call's alone
}

// weight returns the part of mostOperations that the call takes.
func (o *operateCall) weight() int { return 1 + o.key.Size*mostOperations/mostBytes }

// operateAll has calls decide, each about the rows as those before it have left them. All rows are locked before the first thread, as
// everywhere.
func (l *Ledger) operateAll(ctx context.Context, calls []*operateCall) error {
	ids := make([]string, len(calls))
	for i, o := range calls {
		ids[i] = o.key.Instance
	}
	// New rows are stored in the order of their ids, as existing ones are locked: transactions with the same rows do not hold each other.
	calls = slices.SortedStableFunc(slices.Values(calls), func(a, b *operateCall) int { return strings.Compare(a.key.Instance, b.key.Instance) })
	return l.DB.For(store.ForGroups).Write(ctx, changingService, func(tx *store.Tx) error {
		if err := l.Services.LockAllIn(tx, ids); err != nil {
			return err
		}
		for left := calls; len(left) > 0; {
			var round []*operateCall
			round, left = firstOfEach(left)
			if err := l.operateRound(tx, round); err != nil {
				return err
			}
		}
		return nil
	})
}

// firstOfEach divides calls into the first one about each service instance, and the rest.
func firstOfEach(calls []*operateCall) (first, rest []*operateCall) {
	seen := map[string]bool{}
	for _, o := range calls {
		if seen[o.key.Instance] {
			rest = append(rest, o)
			continue
		}
		seen[o.key.Instance] = true
		first = append(first, o)
	}
	return first, rest
}

// operateRound has calls about different service instances decide, and stores the decisions. Rows go first: an operation may end
// others at once, and their ends are recorded in the row as it is then.
func (l *Ledger) operateRound(tx *store.Tx, calls []*operateCall) error {
	rows := make([]*services.Instance, len(calls))
	for i, o := range calls {
		var err error
		if rows[i], err = l.Services.LockIn(tx, o.key.Instance); err != nil {
			return err
		}
	}
	states, err := l.serviceStates(tx, rows)
	if err != nil {
		return err
	}
	var starts []queue.Start
	for i, o := range calls {
		if states[i].Binding, err = l.binding(tx, o.key); err != nil {
			return err
		}
		var change ServiceChange
		if change, o.refused = o.decide(states[i]); o.refused != nil {
			continue // it is the answer to this call alone
		}
		if err := l.storeChange(tx, o.key, change); err != nil {
			return err
		}
		if change.Start != nil {
			starts = append(starts, change.Start.start(o.key.Instance))
		}
	}
	return l.StartAfter(tx, starts...)
}

// Service reads a service instance with its operation, and a binding of it, as one state of the database. Calls share transactions.
// Errors: fault.Invalid for an id that no service instance or binding can have.
func (l *Ledger) Service(ctx context.Context, key ServiceKey) (ServiceState, error) {
	if err := key.check(); err != nil {
		return ServiceState{}, err
	}
	o := &lookup{key: key}
	if err := l.lookups.Do(ctx, o); err != nil {
		return ServiceState{}, err
	}
	return o.state, nil
}

// lookup is a call of Service. Platforms poll each operation every few seconds.
type lookup struct {
	key   ServiceKey
	state ServiceState
}

// lookUpAll reads what some calls of Service need.
func (l *Ledger) lookUpAll(ctx context.Context, calls []*lookup) error {
	ids := make([]string, len(calls))
	for i, o := range calls {
		ids[i] = o.key.Instance
	}
	return l.DB.For(store.ForReaders).Read(ctx, readingService, func(tx *store.Tx) error {
		found, err := l.Services.ReadAllIn(tx, ids)
		if err != nil {
			return err
		}
		rows := make([]*services.Instance, len(calls))
		for i, o := range calls {
			rows[i] = found[o.key.Instance]
		}
		states, err := l.serviceStates(tx, rows)
		if err != nil {
			return err
		}
		for i, o := range calls {
			o.state = states[i]
			if o.state.Binding, err = l.binding(tx, o.key); err != nil {
				return err
			}
		}
		return nil
	})
}

// ServicePage reads at most limit service instances after an id, in the order of their ids byte by byte, with their
// operations, as one state of the database. See services.Services.List.
func (l *Ledger) ServicePage(ctx context.Context, after string, limit int) (page []ServiceState, err error) {
	err = l.DB.List(ctx, "list service instances", func(tx *store.Tx) error {
		found, err := l.Services.ListIn(tx, after, limit)
		if err != nil {
			return err
		}
		rows := make([]*services.Instance, len(found))
		for i := range found {
			rows[i] = &found[i]
		}
		page, err = l.serviceStates(tx, rows)
		return err
	})
	return page, err
}

// serviceStates reads the actions of the operations that rows name. A row may be nil.
func (l *Ledger) serviceStates(tx *store.Tx, rows []*services.Instance) ([]ServiceState, error) {
	states := make([]ServiceState, len(rows))
	var operations []action.ID
	for i, row := range rows {
		states[i] = ServiceState{Row: row, Now: tx.Now()}
		if row != nil {
			operations = append(operations, row.Operation)
		}
	}
	if len(operations) == 0 {
		return states, nil
	}
	threads, err := l.FindAll(tx, operations)
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if row != nil {
			states[i].Thread = threads[row.Operation]
		}
	}
	return states, nil
}

// binding reads the binding of a key; nil: the key has none, or there is none.
func (l *Ledger) binding(tx *store.Tx, key ServiceKey) (*services.Binding, error) {
	if key.Binding == "" {
		return nil, nil
	}
	return l.Services.BindingIn(tx, key.Instance, key.Binding)
}

// storeChange stores the rows of a decision.
func (l *Ledger) storeChange(tx *store.Tx, key ServiceKey, change ServiceChange) error {
	if err := change.check(key); err != nil {
		return err
	}
	if change.Row != nil {
		if err := l.Services.PutIn(tx, *change.Row); err != nil {
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

// start returns the action of an operation, which begins after the other operations of its service instance.
func (o *ServiceOperation) start(instance string) queue.Start {
	a := o.Action
	a.Kind, a.UniqueKey = services.Kind, services.Key(instance, o.Verb)
	if a.Name == "" {
		a.Name = string(o.Verb) + " " + instance
	}
	return queue.Start{Action: a, After: services.OtherKeys(instance, o.Verb)}
}

// check refuses decisions whose parts do not fit together: a mistake of the program.
func (c ServiceChange) check(key ServiceKey) error {
	switch {
	case c.Row != nil && c.Row.ID != key.Instance, c.Bind != nil && (c.Bind.Instance != key.Instance || c.Bind.ID != key.Binding):
		return fault.New(fault.Internal, "a decision about service instance %q is about another one", key.Instance)
	case c.Start != nil && c.Start.Action.ID.IsZero():
		return fault.New(fault.Internal, "the operation of service instance %q has no id", key.Instance)
	case c.Start != nil && c.Row != nil &&
		(c.Row.Operation != c.Start.Action.ID || c.Row.Verb != c.Start.Verb || c.Row.End != 0):
		return fault.New(fault.Internal, "the row of service instance %q does not name its operation", key.Instance)
	}
	return nil
}
