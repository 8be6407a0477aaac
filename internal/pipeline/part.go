package pipeline

import "github.com/waybill-dev/waybill/internal/fault"

// KindPart is the kind, in the row that creates it, of a deployment of a revision to one stage,
// group or host. It has the steps of that target, and of nothing before, beside or after it; else
// it is like any other.
const KindPart = "part"

// CheckPart returns an error for a target that cannot be deployed to on its own: fault.NotFound if the definition
// lacks it, fault.Refused if it has no hosts.
func CheckPart(d *Definition, target string) error {
	stage, _, _, ok := d.Find(target)
	switch {
	case !ok || stage == nil:
		return fault.New(fault.NotFound, "pipeline %s has no %s", d.Pipeline, target)
	case !stage.deploys():
		return fault.New(fault.Refused, "stage %s has no hosts", stage.Name).WithHint("name a stage, group or host that is deployed to")
	}
	return nil
}
