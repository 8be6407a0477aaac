package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/command"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// StopHandler is the name of the handler that ends services; no file may describe one of that name.
const StopHandler = "service-stop"

// stopTakes is the time of one attempt. After stopWaits a stop that was not made is void: the
// service may have been started again since, on purpose.
const (
	stopTakes = time.Minute
	stopWaits = 2 * time.Minute
)

// Stop is the parameters of an action that ends the service of a host on this machine.
type Stop struct {
	Pipeline string `json:"pipeline"`
	Target   string `json:"target"`  // full path of the host
	Folder   string `json:"folder"`  // folder of the service, absolute
	Machine  string `json:"machine"` // where the folder is: its name and the home
}

// Place names this computer and a home on it.
func Place(home string) (string, error) {
	home, err := filepath.Abs(home)
	if err != nil {
		return "", err
	}
	name, err := os.Hostname()
	if err != nil {
		name = "unknown"
	}
	return name + ":" + home, nil
}

// Installed is a service of a host.
type Installed struct {
	pipeline.Place
	Service string // its name
	Left    bool   // the definition in force no longer has it
}

// InstalledBy returns the services of the hosts of a definition.
func InstalledBy(d *pipeline.Definition) (all []Installed) {
	for at := range d.EachHost() {
		all = append(all, Installed{Place: at, Service: d.ServiceOf(at.Stage, at.Group, at.Host).Name})
	}
	return all
}

// Stops lists the actions that end those services of a pipeline that are up on this machine. A folder may have
// another address in another pipeline, which has deployed there since: then the service there is left alone, with an
// error unless the pipeline has left it.
func Stops(ctx context.Context, home, ledger, name string, services []Installed, by string) (stops []action.Action, err error) {
	home, err = filepath.Abs(home)
	if err != nil {
		return nil, err
	}
	place, err := Place(home)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, at := range services {
		dir, foreign := localDir(home, *at.Host)
		folder := filepath.Join(dir, at.Service)
		if foreign != nil || seen[folder] {
			continue
		}
		seen[folder] = true
		state, up, failed := askLocal(ctx, at.Host.Name, folder)
		if err = errors.Join(err, failed); !up {
			continue
		}
		if other := state.Deployment; other != "" && !state.of(ledger, name) {
			if !at.Left {
				err = errors.Join(err, fault.New(fault.Refused, "what runs in %s is of %s", folder, other).
					WithHint("pipeline %s has the same folder: give the service another service.name in one of the two", name))
			}
			continue
		}
		stop, failed := stopOf(Stop{Pipeline: name, Target: at.Target, Folder: folder, Machine: place}, by)
		stops, err = append(stops, stop), errors.Join(err, failed)
	}
	return stops, err
}

// of reports whether a pipeline of a log was the last at a service, or the host was taken over for the log and nothing was deployed since.
func (s State) of(ledger, pipeline string) bool {
	return s.Ledger == ledger && (strings.HasPrefix(s.Deployment, pipeline+"#") || strings.HasPrefix(s.Deployment, takenOver))
}

func stopOf(s Stop, by string) (action.Action, error) {
	parameters, err := json.Marshal(s)
	policy := action.DefaultPolicy()
	policy.AttemptTimeout, policy.Deadline = action.Duration(stopTakes), action.Duration(stopWaits)
	return action.Action{Kind: "stop", Name: "stop " + s.Target, Handler: StopHandler, Lane: StopHandler,
		UniqueKey:  "stop " + s.Machine + " " + s.Folder,
		Parameters: parameters, Policy: policy, CreatedBy: by}, err
}

// askLocal returns the state of a service in a folder of this machine, and whether it, or its supervisor, is up.
func askLocal(ctx context.Context, host, folder string) (state State, up bool, err error) {
	p := &program{host: &command.Local{}, name: host, folder: folder}
	if there, err := p.deployed(ctx); err != nil || !there {
		return State{}, false, err
	}
	answer, err := p.call(ctx, nil, "status")
	return stateOf(answer), err == nil && (answer.first("supervisor") != "" || answer.first("service") != ""), err
}

// Notes records stops.
type Notes interface {
	// Remark appends an entry that completes nothing.
	Remark(ctx context.Context, pipeline string, e pipeline.Entry) error
}

// Stopper ends services on this machine. Safe for concurrent use.
type Stopper struct {
	Home     string // home of this process, absolute
	LedgerID string // id of the log; deployments of another log are not ended
	Log      Notes
}

// Do makes one attempt to end the service that the action names, and appends the change
// service-stopped.
func (s Stopper) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	var stop Stop
	if err := json.Unmarshal(a.Action.Parameters, &stop); err != nil {
		return action.Outcome{Kind: action.BadInput, Error: "read the parameters: " + err.Error()}
	}
	here, err := Place(s.Home)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	if stop.Machine != here {
		return outcomeOf(ctx, throttled{fault.New(fault.Unavailable, "the service is on %s, and this is %s", stop.Machine, here)})
	}
	p := &program{host: &command.Local{}, name: stop.Target, folder: stop.Folder}
	if _, err := p.call(ctx, nil, "stop", pair("action", a.Action.ID), pair("attempt", a.Number),
		pair("ledger", s.LedgerID), pair("name", stop.Pipeline)); err != nil {
		return outcomeOf(ctx, err)
	}
	detail, err := json.Marshal(map[string]string{"action": a.Action.ID.String(), "by": a.Action.CreatedBy})
	if err != nil {
		return outcomeOf(ctx, err)
	}
	e := pipeline.Entry{Target: stop.Target, Event: pipeline.ServiceStopped, Class: pipeline.Change, Detail: detail}
	if err := s.Log.Remark(ctx, stop.Pipeline, e); err != nil {
		return outcomeOf(ctx, fmt.Errorf("note the stop: %w", err))
	}
	return action.Outcome{Kind: action.Done, Output: json.RawMessage(`{"text":"stopped"}`)}
}
