package main

import "time"

// engine is a pipeline engine, of today or of the earlier commit; package oracle has what the methods do.
type engine interface {
	Fresh() any
	folding
	asking
	explaining
}

// folding is what changes an engine.
type folding interface {
	Compile(version int, definition []byte) (problems any, ok bool, err error)
	Adopt(version int)
	Apply(row []byte) error
	Decide(now time.Time, limit int) (any, error)
	Simulate(scenario []byte, duration func(deployment int64, target, event string) time.Duration) (any, error)
}

// asking is what people ask of an engine.
type asking interface {
	Edit(version int, newest int64, now time.Time) (edit any, refused bool)
	Command(command []byte) (any, error)
	Rollback(rollback []byte) (any, error)
	CatchUp(catchUp []byte) (any, error)
	Judge(reject bool, revision int64, label, by, reason string) (any, error)
	SetFreeze(freeze []byte, now time.Time) (any, error)
	ClearFreeze(by, reason string, now time.Time) (any, error)
}

// explaining is what an engine says of its state.
type explaining interface {
	Seq() int64
	Version() int
	Definition() any
	Steps(version int) int
	Opening(version, stage int, now time.Time) (bool, string)
	Explain(deployment int64, now time.Time) any
	Deployments(activeOnly bool) any
	Deployment(number int64) (any, bool)
	CurrentAt(target string) int64
	Outranks(deployment, other int64) bool
	Frozen(now time.Time) (any, string)
}
