package ship

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// checkUntil returns an error when --until names a stage that the pipeline does not have.
func checkUntil(d pipeline.Definition, until string) error {
	names := make([]string, len(d.Stages))
	for i, stage := range d.Stages {
		names[i] = stage.Name
	}
	if until == "" || slices.Contains(names, until) {
		return nil
	}
	return fault.New(fault.Invalid, "stage %q not found in %s", until, d.Pipeline).WithHint("stages: %s", strings.Join(names, ", "))
}

// bound lets a deployment that an earlier ship made go as far as this one requests. A deployment that this ship made
// has its bound from the start.
func (s *shipment) bound(ctx context.Context, ref service.Ref) error {
	v, err := operation.GetDeployment.Call(ctx, s.Log, operation.PathOf(ref))
	if err != nil || v.State.Status != pipeline.StatusActive || v.State.Until == s.Flags.until {
		return err
	}
	want := operation.CommandInput{DeploymentPath: operation.PathOf(ref), Body: &operation.CommandBody{Target: s.Flags.until}}
	if _, err := operation.CommandDeployment("until").Call(ctx, s.Log, want); err != nil {
		return fmt.Errorf("set how far %s goes: %w", ref, err)
	}
	return nil
}

// reached reports whether a deployment has finished the stage that is its bound.
func reached(v service.DeploymentView) bool {
	for _, stage := range v.Stages {
		if stage.Name == v.State.Until {
			return stage.State == service.RunFinished
		}
	}
	return false
}
