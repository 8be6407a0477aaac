package cmdline

import (
	"fmt"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// UnknownHosts returns a problem for each ssh host of a project, and for the jump host, whose key this machine does not
// know. With until, only hosts count that a deployment which goes no further than this stage reaches.
func UnknownHosts(a *App, p Project, home assembly.Home, until string) (problems fault.Problems, err error) {
	hosts, err := a.Hosts(home, p.Dir)
	if err != nil {
		return nil, err
	}
	defer hosts.SSH.Close()
	var targets []ssh.Target
	var paths, names []string
	add := func(t ssh.Target, path, name string) {
		targets, paths, names = append(targets, t), append(paths, path), append(names, name)
	}
	jump, within := false, p.Definition.StagesUntil(until)
	for i, stage := range p.Definition.Stages {
		if until != "" && !within[i] {
			continue
		}
		for j, group := range stage.Groups {
			for k := range group.Hosts {
				if !group.Hosts[k].Remote() {
					continue
				}
				at, _ := p.Definition.Place(p.Definition.Pipeline + "/" + stage.Name + "/" + group.Name + "/" + group.Hosts[k].Name)
				target, err := hosts.Account(at)
				if err != nil {
					return nil, err
				}
				if target.Jump != nil && !jump {
					jump = true
					add(*target.Jump, "ssh.jump", "the jump host "+target.Jump.Address)
				}
				add(target, fmt.Sprintf("stages[%d].groups[%d].hosts[%d].url", i, j, k), target.Address)
			}
		}
	}
	unknown, err := ssh.Unknown(targets)
	if err != nil || len(unknown) == 0 {
		return nil, err
	}
	root, _ := yamltree.Parse(a.Shorten(p.File), []byte(p.Source), yamltree.PipelineFile)
	for _, i := range unknown {
		problems.Add(fault.Problem{Position: definition.Locate(root, paths[i]), Code: "unknown-host-key",
			Text: "no known key for " + names[i] + ": waybill pipeline trust " + p.Definition.Pipeline})
	}
	return problems, nil
}

// CheckHostKeys refuses a project with ssh hosts whose keys are not known, if this machine is the one that reaches them.
// It opens no log and makes no home, so that a refused command leaves nothing behind. until is as in UnknownHosts.
func CheckHostKeys(a *App, p Project, until string) error {
	kind, err := a.KindOf(p.Dir)
	if err != nil || kind != assembly.Embedded {
		return err
	}
	problems, err := UnknownHosts(a, p, a.HomeOf(p.Dir), until)
	if err != nil {
		return err
	}
	return problems.Err()
}

// KeyWarnings returns the findings that CheckHostKeys would refuse, as warnings.
func KeyWarnings(a *App, p Project) (fault.Problems, error) {
	err := CheckHostKeys(a, p, "")
	if problems, wrong := ProblemsOf(err); wrong {
		return AsWarnings(problems), nil
	}
	return nil, err
}

// ReachedFromHere refuses a command about ssh hosts that names a server: the server's machine is what reaches them.
func ReachedFromHere(a *App, command string) error {
	if a.Flags.Server == "" {
		return nil
	}
	return fault.New(fault.Invalid, "the hosts are reached, and their keys are stored, where the conductor runs, not through a server").
		WithHint("run on the server, in the folder of its home: %s", command)
}

// AsWarnings returns problems as warnings.
func AsWarnings(problems fault.Problems) fault.Problems {
	for i := range problems {
		problems[i].Warning = true
	}
	return problems
}
