package services

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Verb names the kind of an operation.
type Verb string

// The verbs. Repair is an operation that no platform has requested, so no row names it.
const (
	Provision   Verb = "provision"
	Update      Verb = "update"
	Deprovision Verb = "deprovision"
	Repair      Verb = "repair"
)

// Instance is the row of a service instance.
type Instance struct {
	ID        string // chosen by the platform: 1 to MostID bytes
	User      string // user of the broker that it belongs to
	Operation action.ID
	Verb      Verb            // verb of Operation
	End       action.Status   // how Operation ended; zero while it is live
	Asked     json.RawMessage // document of the last provision or update, whether it succeeded or not
	Applied   json.RawMessage // document of the last successful one since the last provision; nil: none
	GoneAt    time.Time       // time of the successful deprovision; zero: none since the last provision
}

// Binding is the row of a binding.
type Binding struct {
	Instance string // id of its service instance
	ID       string // chosen by the platform, unique in its service instance: 1 to MostID bytes
	Document json.RawMessage
}

// MostID is the size of an id in bytes.
const MostID = 255

// Ended returns the row after an operation has ended. An operation that a deprovision cancels may still succeed
// before it notices; then its document is applied, whether the deprovision succeeds or not.
func (i Instance) Ended(operation action.ID, verb Verb, status action.Status, now time.Time) Instance {
	current := operation == i.Operation
	canceled := !current && i.Verb == Deprovision && i.GoneAt.IsZero()
	if status == action.Successful && (verb == Provision || verb == Update) && (current || canceled) {
		i.Applied = i.Asked
	}
	if !current {
		return i
	}
	i.End = status
	if status == action.Successful && verb == Deprovision {
		i.GoneAt = now
	}
	return i
}

// Kind is the kind of the actions of operations.
const Kind = "osb"

// keyPrefix begins the unique keys of operations.
const keyPrefix = Kind + "/"

// Key returns the unique key of an operation. No verb has a slash, so different operations have different keys.
func Key(instance string, verb Verb) string { return keyPrefix + instance + "/" + string(verb) }

// ActionName returns the name of the actions of a service instance's operations with a verb.
func ActionName(instance string, verb Verb) string { return string(verb) + " " + instance }

// keys returns the unique keys of all operations of a service instance.
func keys(instance string) []string {
	return []string{Key(instance, Provision), Key(instance, Update), Key(instance, Deprovision), Key(instance, Repair)}
}

// OtherKeys returns the unique keys of the operations of a service instance with other verbs.
func OtherKeys(instance string, verb Verb) (others []string) {
	for _, key := range keys(instance) {
		if key != Key(instance, verb) {
			others = append(others, key)
		}
	}
	return others
}

// OfAction returns the service instance and the verb of an operation's action; false for every other action.
func OfAction(a *action.Action) (instance string, verb Verb, ok bool) {
	rest, ok := strings.CutPrefix(a.UniqueKey, keyPrefix)
	at := strings.LastIndexByte(rest, '/')
	if a.Kind != Kind || !ok || at < 1 {
		return "", "", false
	}
	return rest[:at], Verb(rest[at+1:]), true
}

// check refuses rows that cannot be stored.
func (i Instance) check() error {
	if err := CheckID("the service instance's id", i.ID); err != nil {
		return err
	}
	switch {
	case i.Verb != Provision && i.Verb != Update && i.Verb != Deprovision:
		return fault.New(fault.Invalid, "verb %q of service instance %q: want provision, update or deprovision", i.Verb, i.ID)
	case i.Operation.IsZero():
		return fault.New(fault.Invalid, "service instance %q has no operation", i.ID)
	case i.End != 0 && !i.End.Ended():
		return fault.New(fault.Invalid, "service instance %q: %s is not an end", i.ID, i.End)
	case !store.IsText(i.User):
		return fault.New(fault.Invalid, "the user of service instance %q has a NUL character or is not valid UTF-8", i.ID)
	}
	if flaw := store.JSONFlaw(i.Asked); flaw != "" {
		return fault.New(fault.Invalid, "the attributes asked of service instance %q %s", i.ID, flaw)
	}
	if flaw := store.JSONFlaw(i.Applied); i.Applied != nil && flaw != "" {
		return fault.New(fault.Invalid, "the attributes applied to service instance %q %s", i.ID, flaw)
	}
	return nil
}

// check refuses rows that cannot be stored.
func (b Binding) check() error {
	if err := CheckID("the binding's id", b.ID); err != nil {
		return err
	}
	if flaw := store.JSONFlaw(b.Document); flaw != "" {
		return fault.New(fault.Invalid, "the parameters of binding %q %s", b.ID, flaw)
	}
	return nil
}

// CheckID refuses ids that cannot be stored.
func CheckID(called, id string) error {
	if id == "" || len(id) > MostID || !store.IsText(id) {
		return fault.New(fault.Invalid, "%s is %.100q: want 1 to %d bytes of UTF-8 without NUL", called,
			store.CleanText(id), MostID)
	}
	return nil
}
