package promotion

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// inputDocument is an Input as JSON: maps whose keys have several parts are lists there, in the order of the keys.
type inputDocument struct {
	*plainInput

	Seen     []seenDocument    `json:"seen,omitzero"`
	Attempts []attemptDocument `json:"attempts,omitzero"`
	Gates    []gateDocument    `json:"gates,omitzero"`
}

type plainInput Input

type seenDocument struct {
	TargetID
	Seen
}

type attemptDocument struct {
	AttemptKey
	Attempt
}

type gateDocument struct {
	GateKey
	GateResult
}

// MarshalJSON writes an input. It has no secrets: it names them at most.
func (in Input) MarshalJSON() ([]byte, error) {
	plain := plainInput(in)
	d := inputDocument{plainInput: &plain}
	for id, s := range in.Seen {
		d.Seen = append(d.Seen, seenDocument{id, s})
	}
	for key, a := range in.Attempts {
		d.Attempts = append(d.Attempts, attemptDocument{key, a})
	}
	for key, g := range in.Gates {
		d.Gates = append(d.Gates, gateDocument{key, g})
	}
	slices.SortFunc(d.Seen, func(a, b seenDocument) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Namespace, b.Namespace))
	})
	slices.SortFunc(d.Attempts, func(a, b attemptDocument) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Gate, b.Gate))
	})
	slices.SortFunc(d.Gates, func(a, b gateDocument) int {
		return cmp.Or(cmp.Compare(a.Run, b.Run), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Gate, b.Gate))
	})
	return json.Marshal(d)
}

// UnmarshalJSON reads an input that MarshalJSON has written.
func (in *Input) UnmarshalJSON(text []byte) error {
	d := inputDocument{plainInput: (*plainInput)(in)}
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("input of a decision: %w", err)
	}
	in.Seen, in.Attempts, in.Gates = map[TargetID]Seen{}, map[AttemptKey]Attempt{}, map[GateKey]GateResult{}
	for _, s := range d.Seen {
		in.Seen[s.TargetID] = s.Seen
	}
	for _, a := range d.Attempts {
		in.Attempts[a.AttemptKey] = a.Attempt
	}
	for _, g := range d.Gates {
		in.Gates[g.GateKey] = g.GateResult
	}
	return nil
}

// Assume returns an input in which the first environment is ready at a revision, and has been for as long as it has to settle.
func (in Input) Assume(r Revision) Input {
	if len(in.Spec.Environments) == 0 || in.Latest == r {
		return in
	}
	seen := make(map[TargetID]Seen, len(in.Seen))
	for id, s := range in.Seen {
		seen[id] = s
	}
	for _, id := range in.Spec.Environments[0].Targets {
		seen[id] = Seen{Class: Ready, Applied: r, Attempted: r}
	}
	in.Seen, in.Latest, in.LatestSince = seen, r, in.Now.Add(-in.Spec.Settle)
	return in
}

// Observed returns the part of an input that is not in the log: the definition and the states of targets. A target whose controller
// checks its revision again has the state from before, so that the part changes only with its meaning.
func (in Input) Observed() Input {
	seen := make(map[TargetID]Seen, len(in.Seen))
	for id, s := range in.Seen {
		if s.Rechecking && s.Last != "" {
			s = Seen{Class: s.Last, Message: s.Message, Applied: s.Applied, Attempted: s.Attempted}
		}
		seen[id] = s
	}
	return Input{Spec: in.Spec, Seen: seen, Latest: in.Latest, LatestSince: in.LatestSince, Inputs: in.Inputs}
}

// With returns an input of the log's part and the observed part.
func (in Input) With(observed Input) Input {
	in.Spec, in.Seen, in.Inputs = observed.Spec, observed.Seen, observed.Inputs
	in.Latest, in.LatestSince = observed.Latest, observed.LatestSince
	return in
}
