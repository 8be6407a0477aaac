package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
	"github.com/waybill-dev/waybill/internal/server"
)

// untilReason is how the holds of --until are known again.
const untilReason = "ship --until "

// bound holds what lies beyond the stage of --until, and lets go what an
// earlier ship held. Holds are in the log, so whoever holds it keeps to them.
func (s *shipment) bound(ctx context.Context, ref server.Ref) error {
	v, err := s.Version(ctx, ref.Pipeline, 0)
	if err != nil {
		return err
	}
	within, err := upTo(v.Definition, s.flags.until)
	if err != nil {
		return err
	}
	held, err := s.heldByUntil(ctx, ref)
	if err != nil {
		return err
	}
	for _, stage := range v.Definition.Stages {
		intent := server.Command{Kind: "hold", Target: stage.Name, By: s.user(), Reason: untilReason + s.flags.until}
		if within[stage.Name] {
			intent.Kind = "resume"
		}
		if held[stage.Name] != within[stage.Name] {
			continue
		}
		if err := s.Command(ctx, ref, intent); err != nil {
			return fmt.Errorf("%s %s: %w", intent.Kind, stage.Name, err)
		}
	}
	return nil
}

// upTo is a stage and all that come before it; every stage when none is named.
func upTo(d schedule.Definition, until string) (map[string]bool, error) {
	after, names := map[string][]string{}, make([]string, len(d.Stages))
	for i, stage := range d.Stages {
		names[i], after[stage.Name] = stage.Name, stage.After
	}
	open := names
	if until != "" {
		if _, ok := after[until]; !ok {
			return nil, fault.New(fault.Invalid, "there is no stage %q in %s", until, d.Pipeline).WithHint("stages: %s", strings.Join(names, ", "))
		}
		open = []string{until}
	}
	within := map[string]bool{}
	for len(open) > 0 {
		name := open[0]
		open = open[1:]
		if !within[name] {
			within[name] = true
			open = append(open[:len(open):len(open)], after[name]...)
		}
	}
	return within, nil
}

// heldByUntil is the stages that an earlier ship holds in a deployment.
func (s *shipment) heldByUntil(ctx context.Context, ref server.Ref) (map[string]bool, error) {
	notes, err := s.Entries(ctx, ledger.EntryQuery{Pipeline: ref.Pipeline, Deployment: ref.Number, Class: schedule.Note})
	held := map[string]bool{}
	for _, note := range notes {
		var detail struct {
			Reason string `json:"reason"`
		}
		stage := strings.TrimPrefix(note.Target, ref.Pipeline+"/")
		switch note.Event {
		case schedule.HoldSet:
			if json.Unmarshal(note.Detail, &detail) == nil {
				held[stage] = strings.HasPrefix(detail.Reason, untilReason)
			}
		case schedule.HoldCleared:
			delete(held, stage)
		}
	}
	return held, err
}

// enough says when watching ends before the deployment does; nil without --until.
func (s *shipment) enough() func(server.DeploymentView) bool {
	if s.flags.until == "" {
		return nil
	}
	return s.reached
}

// reached reports whether a deployment has come as far as --until asked for.
func (s *shipment) reached(v server.DeploymentView) bool {
	for _, stage := range v.Stages {
		if stage.Name == s.flags.until {
			return stage.State == server.RunFinished
		}
	}
	return false
}

// halfway is the last line of a ship that was to go no further.
func (s *shipment) halfway(v server.DeploymentView) {
	style := s.style(s.out)
	s.note("%s %s; what comes after it is held: waybill ship goes on", style.good("finished:"), v.Label+" in "+s.flags.until)
}
