// Package storetest is what the suites of queuetest, journaltest and ledgertest have in common: the database that a test
// gets of a driver, the setup of a property, and the checks of errors. It knows store alone, so that each suite decides
// which part of the log it puts over the database.
package storetest

import (
	"flag"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Database is a fresh database for one test.
type Database struct {
	// Open returns one more driver on it, as another process has it. The suite closes it.
	Open func(t *testing.T) store.Driver
	// Exec runs a statement on a connection that is not a driver's.
	Exec func(statement string) error
	// Past makes room for actions that were created between from and to. nil: the database needs no room made in advance.
	Past func(t *testing.T, from, to time.Time)
	// Hold begins a transaction that has read the actions and keeps retention from deleting any. nil: no reader delays
	// retention.
	Hold func(t *testing.T) (release func())
	// Cut ends every open connection from outside. nil: the database has no connections that can be cut.
	Cut func() error
}

// Run runs the properties of a suite in parallel, each as a subtest with its own database. The key states the
// property; setup prepares the part of the log that it is about.
func Run[S any](t *testing.T, open func(t *testing.T) Database, setup func(*testing.T, Database) S,
	properties map[string]func(*testing.T, S)) {
	t.Helper()
	for name, property := range properties {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			property(t, setup(t, open(t)))
		})
	}
}

// Open returns one more driver of a database as a part of the log sees it.
func Open[D store.Driver](t *testing.T, database Database) D {
	t.Helper()
	driver, ok := database.Open(t).(D)
	if !ok {
		t.Fatalf("the driver lacks the rows of the suite: want a %T", *new(D))
	}
	return driver
}

// TB is the part of a test that the checks need; the one of a random program implements it too.
type TB interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Check ends the test if there is an error.
func Check(t TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// WantCode ends the test unless the error has a code.
func WantCode(t TB, err error, code fault.Code) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("got %v (code %q), want code %q", err, fault.CodeOf(err), code)
	}
}

// CheckPrograms runs random programs on a database: a few, in a few seconds. Run more with -rapid.checks, longer ones with
// -rapid.steps.
func CheckPrograms(t *testing.T, play func(*rapid.T)) {
	t.Helper()
	bound(t)
	rapid.Check(t, play)
}

// bound lowers rapid's default number of checks once, unless the command line sets it: the default is for properties that
// need no database.
func bound(t *testing.T) {
	t.Helper()
	bounding.Lock()
	defer bounding.Unlock()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		Check(t, flag.Set("rapid.checks", "20"))
	}
}

var bounding sync.Mutex
