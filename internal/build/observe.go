package build

import "time"

// WorkerStatus is the state of a worker, as the platform that runs it sees it.
type WorkerStatus string

// The statuses of workers.
const (
	WorkerPending WorkerStatus = "Pending" // it has not begun
	WorkerRunning WorkerStatus = "Running"
	WorkerEnded   WorkerStatus = "Ended"
	WorkerUnknown WorkerStatus = "Unknown" // the platform does not know, as for a pod of a lost node
)

// ObservedBuild is a build as the store knows it. Times are those of the store's clock.
type ObservedBuild struct {
	ID         int64
	Status     Status
	Engine     string // another build engine that runs it; "": a worker does
	CreatedAt  time.Time
	LeaseUntil time.Time // time until which its worker's messages count as recent; zero: none has come
	ProgressAt time.Time // time of the last new events or bytes; zero: none have come

	Creating          bool      // its action lives, and has no worker yet
	CancelRequestedAt time.Time // zero: no cancel was requested
	EndedAt           time.Time // zero: it is active
	Acknowledged      bool      // the worker knows that everything was stored
	Unreachable       bool      // it has the condition Unreachable
}

// ObservedWorker is a worker as its provisioner knows it.
type ObservedWorker struct {
	ID       string
	BuildID  int64
	Instance string // label of the instance that had it created
	Status   WorkerStatus
	Reason   string        // what keeps it from running, or how it ended, for people; may be ""
	Age      time.Duration // on the provisioner's clock
}

// BuildList has every active build, and the builds of the workers that were observed just before.
type BuildList struct {
	Builds   []ObservedBuild
	Complete bool // false: a build may be missing, and nothing follows from its absence
}

// WorkerList has every worker.
type WorkerList struct {
	Workers  []ObservedWorker
	Complete bool // false: a back end did not answer
}

// WatchSettings are the limits that Diff goes by.
type WatchSettings struct {
	Instance         string        // label of the workers that may be touched
	WorkerAge        time.Duration // above which a worker without a build is deleted
	BuildAge         time.Duration // above which a build without a worker is lost
	UnknownFor       time.Duration // after the end of a lease until a worker in state Unknown counts as lost
	Linger           time.Duration // how long a worker stays after its build's end for results that were not acknowledged
	TerminationGrace time.Duration // how long a worker may take to end after a cancel
	SecondLook       time.Duration // between a suspicion and the look that acts on it
}

// DefaultWatchSettings returns the limits for an instance that names no other.
func DefaultWatchSettings(instance string) WatchSettings {
	return WatchSettings{
		Instance: instance, WorkerAge: time.Minute, BuildAge: time.Minute, UnknownFor: 10 * time.Minute,
		Linger: 24 * time.Hour, TerminationGrace: 10 * time.Minute, SecondLook: 30 * time.Second,
	}
}
