// Package servicestest is the suite of every driver of services, run against each real database.
package servicestest

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Run checks a driver. Each call of open returns a fresh database.
func Run(t *testing.T, open func(t *testing.T) storetest.Database) {
	t.Helper()
	storetest.Run(t, open, newSetup, properties())
}

// properties returns the suite: properties by name, with its proof.
func properties() map[string]func(*testing.T, setup) {
	return map[string]func(*testing.T, setup){
		"ServicesAreReadBack":              servicesAreReadBack,
		"IdenticalRequestsMakeOneService":  identicalRequestsMakeOneService,
		"ChangesOfAServiceTakeTurns":       changesOfAServiceTakeTurns,
		"AnErrorStoresNothingOfAService":   anErrorStoresNothing,
		"AttributesChangeWithoutOperation": attributesChangeWithoutOperation,
		"EndsOfOperationsAreRecorded":      endsOfOperationsAreRecorded,
		"EndsFindTheRowThatIsStored":       endsFindTheRowThatIsStored,
		"EndsOfManyServicesDoNotDeadlock":  endsOfManyServicesDoNotDeadlock,
		"ServiceIDsAreComparedByteByByte":  idsAreComparedByteByByte,
		"ServicesAreListedInPages":         servicesAreListedInPages,
		"BindingsLeaveWithTheirService":    bindingsLeaveWithTheirService,
		"GoneServicesAreForgotten":         goneServicesAreForgotten,
		"ServicesThatReturnAreKept":        servicesThatReturnAreKept,
		"ServicesWithoutMeaningAreRefused": servicesWithoutMeaningAreRefused,
	}
}

// Driver is a database that keeps service instances.
type Driver interface {
	store.Driver
	services.Driver
}

// setup is services for one test. Instead of a queue it has the keys that were given to one.
type setup struct {
	*services.Services
	db       *store.DB
	driver   Driver
	database storetest.Database
	ctx      context.Context
	released *released
}

// released records the keys whose action may begin.
type released struct {
	mu   sync.Mutex
	keys [][]string
}

func (r *released) add(_ *store.Tx, keys []string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, keys)
	return nil
}

func newSetup(t *testing.T, database storetest.Database) setup {
	t.Helper()
	return setup{database: database, ctx: t.Context(), released: &released{}}.another(t)
}

// another returns one more view of the database, as another process has it.
func (s setup) another(t *testing.T) setup {
	t.Helper()
	s.driver = storetest.Open[Driver](t, s.database)
	s.db = store.New(s.driver)
	s.Services = services.New(s.db, s.driver, services.Options{Release: s.released.add})
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// op returns the id of an operation.
func op(n byte) action.ID { return action.ID{n} }

// row returns the row of a service instance with a live operation.
func row(id string, operation action.ID, verb services.Verb) services.Instance {
	return services.Instance{ID: id, User: "platform", Operation: operation, Verb: verb,
		Asked: json.RawMessage(`{"size":2}`)}
}

// write runs fn in a transaction with the row of a service instance locked.
func (s setup) write(id string, fn func(tx *store.Tx, found *services.Instance) error) error {
	return s.db.Write(s.ctx, "change a service instance", func(tx *store.Tx) error {
		found, err := s.LockIn(tx, id)
		if err != nil {
			return err
		}
		return fn(tx, found)
	})
}

// put stores a row, whatever there is.
func (s setup) put(t *testing.T, i services.Instance) {
	t.Helper()
	storetest.Check(t, s.write(i.ID, func(tx *store.Tx, _ *services.Instance) error { return s.PutIn(tx, i) }))
}

// want fails unless the row is stored so; nil: unless there is none.
func (s setup) want(t *testing.T, id string, want *services.Instance) {
	t.Helper()
	got, err := s.Get(s.ctx, id)
	storetest.Check(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row of %q (-want +got):\n%s", id, diff)
	}
}

// operation returns the action of an operation.
func operation(i services.Instance) action.Action {
	return action.Action{ID: i.Operation, Kind: services.Kind, Handler: "noop", UniqueKey: services.Key(i.ID, i.Verb)}
}

// end records the ends of actions in a transaction, as the queue does.
func (s setup) end(tx *store.Tx, status action.Status, actions ...action.Action) error {
	asked := make([]*action.Action, len(actions))
	ended := make([]action.EndedAction, len(actions))
	for i := range actions {
		asked[i] = &actions[i]
		ended[i] = action.EndedAction{Action: &actions[i],
			Transition: action.Transition{Thread: action.Thread{Status: status}}}
	}
	record, err := s.OnEnd(tx, asked)
	if err != nil {
		return err
	}
	if record == nil {
		return fault.New(fault.Internal, "nothing records the ends")
	}
	return record(ended)
}

// ends records the ends of actions.
func (s setup) ends(t *testing.T, status action.Status, actions ...action.Action) {
	t.Helper()
	storetest.Check(t, s.db.Write(s.ctx, "end actions", func(tx *store.Tx) error { return s.end(tx, status, actions...) }))
}
