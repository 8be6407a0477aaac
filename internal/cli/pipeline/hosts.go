package pipeline

import (
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// jumpName returns the display name of a jump host, which the pipeline does not name.
const jumpName = "the jump host"

// sshTarget is an account and the host, as STAGE/GROUP/HOST, that it is first named for.
type sshTarget struct {
	name string
	ssh.Target
}

// sshTargets returns the accounts of the named ssh hosts, or of all, each that differs by a key once, jump hosts first.
func sshTargets(d *pipeline.Definition, names []string, account func(pipeline.Place) (ssh.Target, error),
	by func(ssh.Target) string) ([]sshTarget, error) {
	places, err := namedHosts(d, names, true)
	if err != nil {
		return nil, err
	}
	var jumps, targets []sshTarget
	seen := map[string]bool{}
	for _, at := range places {
		t, err := account(at)
		if err != nil {
			return nil, err
		}
		if t.Jump != nil && !seen[by(*t.Jump)] {
			seen[by(*t.Jump)] = true
			jumps = append(jumps, sshTarget{jumpName, *t.Jump})
		}
		if !seen[by(t)] {
			seen[by(t)] = true
			targets = append(targets, sshTarget{belowPipeline(at), t})
		}
	}
	return append(jumps, targets...), nil
}

// namedHosts returns the named hosts of a pipeline, or all; with remote only those that are reached by ssh.
func namedHosts(d *pipeline.Definition, names []string, remote bool) (places []pipeline.Place, err error) {
	found := map[string]bool{}
	for at := range d.EachHost() {
		named := slices.IndexFunc(names, func(name string) bool { return name == belowPipeline(at) || name == at.Target || name == at.Host.Name })
		if len(names) > 0 && named < 0 || remote && !at.Host.Remote() {
			continue
		}
		if named >= 0 {
			found[names[named]] = true
		}
		places = append(places, at)
	}
	kind := "host"
	if remote {
		kind = "ssh host"
	}
	for _, name := range names {
		if !found[name] {
			return nil, fault.New(fault.NotFound, "pipeline %s has no %s %q", d.Pipeline, kind, name).WithHint("name it as STAGE/GROUP/HOST")
		}
	}
	return places, nil
}

// belowPipeline returns a host's path as STAGE/GROUP/HOST.
func belowPipeline(at pipeline.Place) string {
	_, below, _ := strings.Cut(at.Target, "/")
	return below
}
