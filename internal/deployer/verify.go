package deployer

import (
	"context"
	"fmt"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Verifier is the part of the log that Verify reads.
type Verifier interface {
	Reader
	Head(ctx context.Context, pipeline string) (journal.Head, error)
	Deployments(ctx context.Context, q journal.DeploymentQuery) ([]journal.Deployment, error)
}

// Verification is what Verify found.
type Verification struct {
	Pipeline    string   `json:"pipeline"`
	Entries     int64    `json:"entries"` // read without a fault
	Deployments int      `json:"deployments"`
	Faults      []string `json:"faults"` // empty: the log is whole, and the database agrees with it
}

// verifyTries is how often Verify reads what is new while others append.
const verifyTries = 10

// Verify reads a pipeline's whole log into a new engine, which checks each row and the engine's invariants, and
// compares what follows from the log with what the database keeps beside it: the version in force, and the status of
// every deployment. The error is fault.NotFound if the pipeline does not exist.
func Verify(ctx context.Context, v Verifier, name string) (Verification, error) {
	engine := pipeline.New(name)
	found := Verification{Pipeline: name, Faults: []string{}}
	before := int64(-1) // position after the last try
	for range verifyTries {
		err := Catch(ctx, v, name, engine, func(row pipeline.Entry) { found.Entries = row.Seq })
		if isBroken(err) || fault.Is(err, fault.Corrupt) {
			found.Faults = append(found.Faults, err.Error())
			return found, nil
		}
		if err != nil {
			return found, err
		}
		kept, err := v.Deployments(ctx, journal.DeploymentQuery{Pipeline: name})
		if err != nil {
			return found, err
		}
		head, err := v.Head(ctx, name)
		if err != nil {
			return found, err
		}
		if head.Seq <= engine.Seq() || engine.Seq() == before {
			found.Deployments = len(kept)
			found.Faults = append(found.Faults, disagreements(engine, head, kept)...)
			return found, nil
		}
		before = engine.Seq()
	}
	return found, fault.New(fault.Refused, "the log of %s grows while it is compared", name).WithHint("try again when less is under way")
}

// disagreements says where the database and an engine at the end of the log differ.
func disagreements(engine *pipeline.Engine, head journal.Head, kept []journal.Deployment) (faults []string) {
	add := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if head.Seq != engine.Seq() {
		add("the log ends at entry %d, the pipeline's head says %d", engine.Seq(), head.Seq)
	}
	if version, _ := engine.Current(); version != head.Version {
		add("definition %d is in force by the log, the pipeline's head says %d", version, head.Version)
	}
	inDatabase := map[int64]pipeline.Status{}
	for _, d := range kept {
		inDatabase[d.Number] = d.Status
	}
	for _, d := range engine.Deployments(false) {
		status, ok := inDatabase[d.Deployment]
		delete(inDatabase, d.Deployment)
		switch {
		case !ok:
			add("deployment %d is in the log, but not in the database", d.Deployment)
		case status != d.Status:
			add("deployment %d is %s by the log, the database says %s", d.Deployment, d.Status, status)
		}
	}
	for _, d := range kept {
		if _, left := inDatabase[d.Number]; left {
			add("deployment %d is in the database, but not in the log", d.Number)
		}
	}
	return faults
}
