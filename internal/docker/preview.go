package docker

import (
	"context"
	"fmt"

	"github.com/containerd/errdefs"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Preview reports the steps that the Engine cannot run, as Runner.Check does, and of each image whether the Engine
// has it. It changes nothing.
func Preview(ctx context.Context, e *Engine, c Config, steps []build.PlanStep) (remarks []string, problems fault.Problems) {
	r := &Runner{Config: c, engine: e}
	problems = r.Check(ctx, steps)
	if problems.Err() != nil {
		return nil, problems
	}
	seen := map[string]bool{}
	for _, step := range steps {
		images := []string{step.Spec.Image}
		for _, s := range step.Spec.Services {
			images = append(images, s.Image)
		}
		for _, image := range images {
			if seen[image] {
				continue
			}
			seen[image] = true
			_, err := r.inspect(ctx, image)
			absent := errdefs.IsNotFound(err)
			switch {
			case absent && r.Pull == PullNever, err != nil && !absent:
				problems.Add(fault.Problem{Position: step.At, Code: "image-missing", Scope: step.Path(),
					Text: fmt.Sprintf("image %s is not in the Docker Engine: %v", image, err)})
			case absent:
				remarks = append(remarks, fmt.Sprintf("image %s would be pulled", image))
			case r.Pull == PullAlways:
				remarks = append(remarks, fmt.Sprintf("image %s is in the Engine, and its registry would be asked for a newer one", image))
			default:
				remarks = append(remarks, fmt.Sprintf("image %s is in the Engine", image))
			}
		}
	}
	return remarks, problems
}
