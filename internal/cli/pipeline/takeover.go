package pipeline

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// takeOverHosts makes hosts of a pipeline follow the log that the command line names. The log must have the pipeline:
// it has the hosts, and each take-over is an entry of it.
func takeOverHosts(a *cmdline.App, c *cobra.Command, name string, names []string, hosts *step.Hosts) error {
	return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
		if s.Kind == assembly.Remote {
			return fault.New(fault.Invalid, "hosts are taken over where the log is, not through a server").
				WithHint("run waybill pipeline trust --take-over where the conductor runs")
		}
		v, err := operation.GetVersion.Call(ctx, s, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: name}})
		if fault.Is(err, fault.NotFound) {
			return fault.New(fault.NotFound, "no host is taken over: %w",
				err).WithHint("waybill pipeline apply stores the pipeline in the log")
		}
		if err != nil {
			return err
		}
		places, err := namedHosts(&v.Definition, names, false)
		if err != nil {
			return err
		}
		id, err := s.Ledger.ID(ctx)
		if err != nil {
			return err
		}
		return runTakeOver(ctx, takeOverOptions{Definition: &v.Definition, Places: places, Hosts: hosts, Log: s.Ledger,
			Ledger: id.String(), By: a.User(),
			Ask: a.Confirm, Out: a.Printer()})
	})
}

type takeOverOptions struct {
	Definition *pipeline.Definition
	Places     []pipeline.Place
	Hosts      interface {
		// Look inspects a service on a host.
		Look(ctx context.Context, at pipeline.Place, service string) (state step.State, known bool, err error)
		// TakeOver makes a service on a host follow a log.
		TakeOver(ctx context.Context, at pipeline.Place, service, ledger, by string) error
	}
	Log    step.Notes // where each take-over is noted
	Ledger string     // id of this log
	By     string     // the person
	Ask    cmdline.Asker
	Out    show.Printer
}

// fenceDocument is one host of `waybill pipeline trust --take-over -o json`.
type fenceDocument struct {
	Host       string `json:"host"`                 // STAGE/GROUP/HOST
	Service    string `json:"service"`              // name of its folder
	Ledger     string `json:"ledger,omitempty"`     // id of the log that has deployed there; "": none has
	Deployment string `json:"deployment,omitempty"` // deployment that was there last
	Foreign    bool   `json:"foreign"`              // the log was another
	Taken      bool   `json:"taken"`                // by this command
	Error      string `json:"error,omitempty"`      // why it is not known, was not taken over, or the log does not have it

	at pipeline.Place
}

// runTakeOver shows which hosts another log has deployed to, and takes them over after a yes.
func runTakeOver(ctx context.Context, o takeOverOptions) error {
	fences := o.look(ctx)
	foreign, bad := 0, 0
	for _, f := range fences {
		switch {
		case f.Error != "":
			bad++
			o.note("%s  %s", f.Host, f.Error)
		case f.Foreign:
			foreign++
			o.note("%s  %s of another log (%s) was here", f.Host, f.Deployment, f.Ledger)
		}
	}
	text := "no host follows another log"
	if bad > 0 {
		text = "no host that answered follows another log"
	}
	if foreign > 0 {
		if !o.Ask(ctx, fmt.Sprintf("take over %s?", countHosts(foreign))) {
			return fault.New(fault.Refused, "nothing is taken over: %s would be", countHosts(foreign)).WithHint("answer y on a terminal")
		}
		each(fences, func(f *fenceDocument) {
			if !f.Foreign {
				return
			}
			f.Taken, f.Error = o.take(ctx, f)
		})
		for _, f := range fences {
			if f.Foreign && !f.Taken {
				foreign--
			}
			if f.Foreign && f.Error != "" {
				bad++
				o.note("%s  %s", f.Host, f.Error)
			}
		}
		text = "took over " + countHosts(foreign)
	}
	if err := o.Out.Answer(fences, text); err != nil || bad == 0 {
		return err
	}
	return fault.New(fault.Failed, "%d of %s could not be asked, taken over, or noted", bad, countHosts(len(fences)))
}

// take makes one host follow this log, and notes it there. reason is why the host was not taken over, or why that is not
// noted; "": it is done.
func (o takeOverOptions) take(ctx context.Context, f *fenceDocument) (taken bool, reason string) {
	if err := o.Hosts.TakeOver(ctx, f.at, f.Service, o.Ledger, o.By); err != nil {
		return false, err.Error()
	}
	detail, err := json.Marshal(pipeline.TakenDetail{By: o.By, Service: f.Service, Ledger: f.Ledger, Deployment: f.Deployment})
	if err == nil { // a person who ends the command now has taken the host over nevertheless
		e := pipeline.Entry{Target: f.at.Target, Event: pipeline.ServiceTakenOver, Class: pipeline.Change, Detail: detail}
		err = o.Log.Remark(context.WithoutCancel(ctx), o.Definition.Pipeline, e)
	}
	if err != nil {
		return true, fmt.Sprintf("taken over, but the log does not say so: %s", err)
	}
	return true, ""
}

// note prints a line for people.
func (o takeOverOptions) note(format string, args ...any) {
	if !o.Out.JSON {
		o.Out.Note(format, args...)
	}
}

// look reads once from each service of the places, by address and name, which log it follows.
func (o takeOverOptions) look(ctx context.Context) []fenceDocument {
	fences, seen := []fenceDocument{}, map[pipeline.Resource]bool{}
	for _, at := range o.Places {
		if r := o.Definition.ResourceOf(at.Stage, at.Group, at.Host); !seen[r] {
			seen[r] = true
			fences = append(fences, fenceDocument{Host: belowPipeline(at), Service: r.Service, at: at})
		}
	}
	each(fences, func(f *fenceDocument) {
		state, _, err := o.Hosts.Look(ctx, f.at, f.Service)
		f.Ledger, f.Deployment = state.Ledger, state.Deployment
		f.Foreign = state.Ledger != "" && state.Ledger != o.Ledger
		if err != nil {
			f.Error = err.Error()
		}
	})
	return fences
}

// each calls do for all fences, some at a time.
func each(fences []fenceDocument, do func(*fenceDocument)) {
	slots := make(chan struct{}, keysAtOnce)
	var wait sync.WaitGroup
	for i := range fences {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			do(&fences[i])
		})
	}
	wait.Wait()
}

func countHosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}
