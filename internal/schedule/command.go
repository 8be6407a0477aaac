package schedule

// Command is a person's intent on a deployment: retry, skip, hold, resume or cancel.
type Command struct {
	Kind       string // the note's event: RetryRequested, StepSkipped, HoldSet, HoldCleared, PipelineCanceled
	Deployment int64
	Target     string // full path; "": the pipeline
	Event      string // narrows Target to one step
	By, Reason string
	Now        bool // cancel: also interrupt builds and replication
}

// Command checks an intent (4.11, 4.12) and returns the notes that record it, or why it is refused.
func (e *Engine) Command(c Command) ([]Entry, error) { panic("skeleton") }
