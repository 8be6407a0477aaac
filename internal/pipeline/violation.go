package pipeline

import "fmt"

// Violation is an invariant that does not hold. Nothing more is decided for the pipeline then,
// since a decision on a broken state cannot be taken back. doc.go lists the invariants.
//
// Either the log has a row that no engine would have decided, or the engine that folds it is wrong.
// The deployer folds the whole log again once, in case only the state in memory was wrong.
type Violation struct {
	Invariant string // such as "I3"
	Pipeline  string
	Seq       int64 // position of the row that breaks it
	Text      string
}

func (v *Violation) Error() string {
	return fmt.Sprintf("invariant %s of pipeline %s does not hold at entry %d: %s", v.Invariant, v.Pipeline, v.Seq, v.Text)
}

// violation returns the error for a broken invariant at the row that was just applied.
func (e *Engine) violation(invariant, format string, args ...any) error {
	return &Violation{Invariant: invariant, Pipeline: e.pipeline, Seq: e.seq, Text: fmt.Sprintf(format, args...)}
}
