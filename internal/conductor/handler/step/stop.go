package step

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
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
	Folder   string `json:"folder"`  // of the service, absolute
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
}

// InstalledBy returns the services of the hosts of a definition.
func InstalledBy(d *pipeline.Definition) (all []Installed) {
	for at := range d.EachHost() {
		all = append(all, Installed{at, d.ServiceOf(at.Stage, at.Group, at.Host).Name})
	}
	return all
}

// Stops lists the actions that end those services of a pipeline that are up on this machine.
func Stops(ctx context.Context, home, name string, services []Installed, by string) (stops []action.Action, err error) {
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
		up, failed := isUp(ctx, at.Host.Name, folder)
		if failed != nil {
			err = errors.Join(err, failed)
		}
		if !up {
			continue
		}
		stop, failed := stopOf(Stop{Pipeline: name, Target: at.Target, Folder: folder, Machine: place}, by)
		stops, err = append(stops, stop), errors.Join(err, failed)
	}
	return stops, err
}

func stopOf(s Stop, by string) (action.Action, error) {
	parameters, err := json.Marshal(s)
	policy := action.DefaultPolicy()
	policy.AttemptTimeout, policy.Deadline = action.Duration(stopTakes), action.Duration(stopWaits)
	return action.Action{Kind: "stop", Name: "stop " + s.Target, Handler: StopHandler, Lane: StopHandler, UniqueKey: "stop " + s.Machine + " " + s.Folder,
		Parameters: parameters, Policy: policy, CreatedBy: by}, err
}

// isUp reports whether a service, or its supervisor, is up in a folder.
func isUp(ctx context.Context, host, folder string) (bool, error) {
	p := &program{host: &command.Local{}, name: host, folder: folder}
	if there, err := p.deployed(ctx); err != nil || !there {
		return false, err
	}
	answer, err := p.call(ctx, nil, "status")
	return err == nil && (answer.first("supervisor") != "" || answer.first("service") != ""), err
}

// Notes is where a stop is noted.
type Notes interface {
	// Remark appends an entry that completes nothing.
	Remark(ctx context.Context, pipeline string, e pipeline.Entry) error
}

// Stopper ends services on this machine. Safe for concurrent use.
type Stopper struct {
	Home string // of this process, absolute
	Log  Notes
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
	if _, err := p.call(ctx, nil, "stop", pair("action", a.Action.ID), pair("attempt", a.Number)); err != nil {
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
