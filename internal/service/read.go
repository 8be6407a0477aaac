package service

import (
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// ReadProposal returns the definition in a waybill.yaml (YAML, and so JSON). Faults are fault.Problems with positions in file.
func ReadProposal(file string, source []byte) (Proposal, error) {
	proposal := Proposal{File: file, Source: string(source)}
	root, problems := yamltree.Parse(file, source, yamltree.PipelineFile)
	if err := problems.Err(); err != nil {
		return proposal, err
	}
	read, found := definition.Read(root, callback.CheckExpression)
	proposal.Definition = read
	return proposal, found.Err()
}

// locateProblems returns problems with positions: those that name a field of the proposal get its place in the file.
func locateProblems(p Proposal, problems fault.Problems) fault.Problems {
	root, _ := yamltree.Parse(p.File, []byte(p.Source), yamltree.PipelineFile) // it was parsed before; a nil root leaves positions out
	located := make(fault.Problems, len(problems))
	for i, problem := range problems {
		if problem.Line == 0 && root != nil {
			problem.Position = definition.Locate(root, problem.Scope)
		}
		located[i] = problem
	}
	return located
}
