package buildview

import "github.com/waybill-dev/waybill/internal/build"

// Artifact is an artifact and its step.
type Artifact struct {
	StepID int `json:"stepId"`
	build.Artifact
}

// ArtifactsOf lists the artifacts of a step by its name or id, or of all steps ("").
func (s State) ArtifactsOf(step string) ([]Artifact, error) {
	steps, err := stepIDs(s, map[string][]string{"step": {step}})
	list := []Artifact{}
	for _, a := range s.Artifacts {
		if wants(steps, a.Step) {
			list = append(list, Artifact{a.Step, a})
		}
	}
	return list, err
}
