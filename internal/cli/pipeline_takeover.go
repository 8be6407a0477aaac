package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// takeOver makes hosts follow the log that the command line names.
func (a *app) takeOver(c *cobra.Command, d *pipeline.Definition, names []string, hosts *step.Hosts) error {
	places, err := namedHosts(d, names, false)
	if err != nil {
		return err
	}
	return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
		if s.Kind == assembly.Remote {
			return fault.New(fault.Invalid, "hosts are taken over where the log is, not through a server").
				WithHint("run waybill pipeline trust --take-over where the conductor runs")
		}
		id, err := s.Ledger.ID(ctx)
		if err != nil {
			return err
		}
		return runTakeOver(ctx, takeOverOptions{Definition: d, Places: places, Hosts: hosts, Ledger: id.String(), By: a.User(), Ask: a.ask, Out: a.printer()})
	})
}

type takeOverOptions struct {
	Definition *pipeline.Definition
	Places     []pipeline.Place
	Hosts      interface {
		// Look asks how a service on a host does.
		Look(ctx context.Context, at pipeline.Place, service string) (state step.State, known bool, err error)
		// TakeOver makes a service on a host follow a log.
		TakeOver(ctx context.Context, at pipeline.Place, service, ledger, by string) error
	}
	Ledger string // id of this log
	By     string // the person
	Ask    asker
	Out    show.Printer
}

// fenceDocument is one host of `waybill pipeline trust --take-over -o json`.
type fenceDocument struct {
	Host       string `json:"host"`                 // STAGE/GROUP/HOST
	Service    string `json:"service"`              // name of its folder
	Ledger     string `json:"ledger,omitempty"`     // id of the log that has deployed there; "": none has
	Deployment string `json:"deployment,omitempty"` // that was there last
	Foreign    bool   `json:"foreign"`              // the log was another one
	Taken      bool   `json:"taken"`                // by this command
	Error      string `json:"error,omitempty"`      // why it is not known, or was not taken over

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
			if err := o.Hosts.TakeOver(ctx, f.at, f.Service, o.Ledger, o.By); err != nil {
				f.Error = err.Error()
				return
			}
			f.Taken = true
		})
		for _, f := range fences {
			if f.Foreign && !f.Taken {
				bad++
				foreign--
				o.note("%s  %s", f.Host, f.Error)
			}
		}
		text = "took over " + countHosts(foreign)
	}
	if err := o.Out.Answer(fences, text); err != nil || bad == 0 {
		return err
	}
	return fault.New(fault.Failed, "%d of %s could not be asked, or not be taken over", bad, countHosts(len(fences)))
}

// note prints a line for people.
func (o takeOverOptions) note(format string, args ...any) {
	if !o.Out.JSON {
		o.Out.Note(format, args...)
	}
}

// look asks each service of the places once, by address and name, which log it follows.
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
