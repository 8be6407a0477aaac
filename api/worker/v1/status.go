// Package workerv1 has the service of a build's worker, and the names of its statuses.
package workerv1

// statusName is a status and the name that files and the database have for it.
type statusName struct {
	status Status
	name   string
}

// statusNames returns the one table of both.
func statusNames() []statusName {
	return []statusName{
		{Status_STATUS_PENDING, "Pending"}, {Status_STATUS_SCHEDULING, "Scheduling"}, {Status_STATUS_INITIALIZING, "Initializing"},
		{Status_STATUS_RUNNING, "Running"}, {Status_STATUS_BACKOFF, "Backoff"}, {Status_STATUS_COMPLETED, "Completed"},
		{Status_STATUS_FAILED, "Failed"}, {Status_STATUS_CANCELED, "Canceled"}, {Status_STATUS_TIMED_OUT, "TimedOut"},
		{Status_STATUS_SKIPPED, "Skipped"}, {Status_STATUS_REUSED, "Reused"}, {Status_STATUS_LOST, "Lost"},
	}
}

// StatusOf returns the status with a name, such as TimedOut; STATUS_UNSPECIFIED if none has it.
func StatusOf(name string) Status {
	for _, s := range statusNames() {
		if s.name == name {
			return s.status
		}
	}
	return Status_STATUS_UNSPECIFIED
}

// Name returns the name of a status, such as TimedOut. That of one that this program does not know is its String, which
// is the name of none.
func (x Status) Name() string {
	for _, s := range statusNames() {
		if s.status == x {
			return s.name
		}
	}
	return x.String()
}
