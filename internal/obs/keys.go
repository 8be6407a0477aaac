package obs

// The keys of log attributes (conductor.md, section 10; deployment-log.md,
// section 12). A line uses no other key for the same thing.
const (
	KeyComponent  = "component"
	KeyError      = "error"
	KeyDuration   = "duration_ms"
	KeyInstance   = "instance"
	KeyCount      = "count"
	KeyRetryIn    = "retry_in"
	KeyActionID   = "action_id"
	KeyHandler    = "handler"
	KeyLane       = "lane"
	KeyAttempt    = "attempt"
	KeyOutcome    = "outcome"
	KeyCode       = "code"
	KeyDropped    = "dropped"
	KeyRows       = "rows"
	KeyActions    = "actions"
	KeyDrained    = "drained"
	KeyCanceled   = "canceled"
	KeyStopped    = "stopped"
	KeyStack      = "stack"
	KeyName       = "name"
	KeyPipeline   = "pipeline"
	KeyDeployment = "deployment"
	KeyTarget     = "target"
	KeyEvent      = "event"
	KeySeq        = "seq"
	KeyEpoch      = "epoch"
	KeyInvariant  = "invariant"
)
