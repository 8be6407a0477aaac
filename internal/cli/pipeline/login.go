package pipeline

import (
	"context"
	"fmt"
	"sync"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ssh"
)

// loginDocument is one ssh host of `waybill pipeline validate --live -o json`.
type loginDocument struct {
	Host     string `json:"host"` // as STAGE/GROUP/HOST, or the jump host
	User     string `json:"user"`
	Address  string `json:"address"`         // HOST:PORT
	Known    bool   `json:"known"`           // its key is; a key that has changed is known
	Accepted bool   `json:"accepted"`        // one of this machine's keys is
	Error    string `json:"error,omitempty"` // why it is not
}

func (l loginDocument) String() string {
	key := "key known"
	if !l.Known {
		key = "key not known"
	}
	if l.Accepted {
		return fmt.Sprintf("%s  %s@%s  %s, lets us in", l.Host, l.User, l.Address, key)
	}
	return fmt.Sprintf("%s  %s@%s  %s: %s", l.Host, l.User, l.Address, key, l.Error)
}

// logins logs in to each account of a project's ssh hosts. The error is that of those which failed, or, without a list, of
// the attempt.
func logins(ctx context.Context, a *cmdline.App, p cmdline.Project) ([]loginDocument, error) {
	hosts, err := a.Hosts(a.HomeOf(p.Dir), p.Dir)
	if err != nil {
		return nil, err
	}
	defer hosts.SSH.Close()
	targets, err := sshTargets(&p.Definition, nil, hosts.Account, func(t ssh.Target) string { return t.User + "@" + t.Address })
	if err != nil {
		return nil, err
	}
	list := make([]loginDocument, len(targets))
	slots := make(chan struct{}, keysAtOnce)
	var wait sync.WaitGroup
	for i, t := range targets {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			list[i] = login(ctx, hosts.SSH, t)
		})
	}
	wait.Wait()
	failed := 0
	for _, l := range list {
		if !l.Accepted {
			failed++
		}
	}
	if failed > 0 {
		return list, fault.New(fault.Failed, "%d of %d ssh accounts do not let this machine in", failed, len(list))
	}
	return list, nil
}

// login logs in to an account.
func login(ctx context.Context, pool *ssh.Pool, t sshTarget) loginDocument {
	l := loginDocument{Host: t.name, User: t.User, Address: t.Address}
	unknown, err := ssh.Unknown([]ssh.Target{t.Target})
	l.Known = err == nil && len(unknown) == 0
	host, err := pool.Host(ctx, t.Target)
	if err != nil {
		l.Error = err.Error()
		if hint := fault.HintOf(err); hint != "" {
			l.Error += "; " + hint
		}
		return l
	}
	_ = host.Close()
	l.Accepted = true
	return l
}
