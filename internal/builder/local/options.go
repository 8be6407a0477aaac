package local

import (
	"time"
)

// Options are the flags of `waybill run`.
type Options struct {
	File, Environment, ResultsDir, BuildID, Workspace string
	Runner, Pull                                      string
	ProjectID                                         string
	Strict, StrictVars                                bool
	Stages, Steps, Env, Inputs                        []string
	passwords                                         []string // inputs of the build that is resumed, whose values are not kept
	hidden                                            []string // inputs that were given as passwords
	MaxParallel                                       int
	Timeout, Grace                                    time.Duration
	MaxStepLog                                        int64
	DryRun                                            DryRun
	InPlace, Watch, Shell                             bool
	TrackedOnly, NoIgnored, KeepWorkspace, KeepFailed bool
	Resume                                            string // a build, or Last
	SecretsDir, Certificates                          string
	Clusters                                          []string
	NoPush                                            bool
	CacheDir                                          string
	CacheSize                                         int64
	Serve                                             ServeOptions
	Launch                                            LaunchOptions
	Kubernetes                                        ClusterOptions
	Kept                                              []string // flags that waybill build rerun gives again
	RerunOf                                           string   // id of the build that is run again; "": none
}

// Values of --dry-run.
const (
	DryClient = "client" // nothing but the plan
	DryServer = "server" // the runner of the steps is checked too
)

// DryRun is the flag --dry-run.
type DryRun string

// On reports whether nothing runs.
func (d DryRun) On() bool { return d != "" }
