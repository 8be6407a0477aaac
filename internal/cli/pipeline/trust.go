package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/ssh"
)

func pipelineTrustCommand(a *cmdline.App) *cobra.Command {
	var takeOver bool
	c := &cobra.Command{
		Use:   "trust [PIPELINE [HOST…]]",
		Short: "Show the keys of ssh hosts, and store those that are new",
		Long: `Asks the ssh hosts of a pipeline for their keys and compares them with those that are known. After a
yes it stores the new ones in the file of known hosts. Compare each fingerprint first with what
ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub prints on the host: who stores the key of another
machine deploys to it. A key that has changed is never stored; remove the old line by hand once you
know why. Without PIPELINE: this folder's waybill.yaml, also before it was ever applied.
Hosts behind a jump host are asked once its own key is known, so that one comes first.
The keys are stored on this machine: run it where the conductor runs. With --server it is refused.

With --take-over it asks the hosts, also local ones, which log has deployed to them, and after a yes
those of another log follow this one. The other one is refused there from then on. What runs is not
changed. The hosts are those of the pipeline in the log, which notes each one as service-taken-over.`,
		Example: cmdline.Examples("waybill pipeline trust", "waybill pipeline trust greeter prod/east/elm",
			"waybill pipeline trust greeter --take-over"),
		RunE: func(c *cobra.Command, given []string) error {
			if !takeOver {
				if err := trustedHere(a, given); err != nil {
					return err
				}
			}
			d, dir, err := trustedDefinition(a, c, given)
			if err != nil {
				return err
			}
			home := a.HomeOf(dir)
			if err := a.TrustHome(home); err != nil {
				return err
			}
			hosts, err := a.Hosts(home, dir)
			if err != nil {
				return err
			}
			defer hosts.SSH.Close()
			names := given[min(1, len(given)):]
			if takeOver {
				return takeOverHosts(a, c, d.Pipeline, names, hosts)
			}
			targets, err := sshTargets(&d, names, hosts.Account, func(t ssh.Target) string { return t.Address })
			if err != nil {
				return err
			}
			store := func(file string, keys []ssh.Shown) error {
				if err := a.CreateHome(home); err != nil {
					return err
				}
				if err := ssh.Store(file, keys); err != nil {
					return err
				}
				return a.Accept(home) // with the file as it is now
			}
			return runTrust(c.Context(), trustOptions{Targets: targets, Show: hosts.SSH.Show, Store: store, Ask: a.Confirm, Out: a.Printer()})
		},
		ValidArgsFunction: cmdline.CompletePipelines(a),
	}
	c.Flags().BoolVar(&takeOver, "take-over", false, "make hosts that another log has deployed to follow this one")
	return c
}

// trustedHere refuses the command on another machine than the one that reaches the hosts.
func trustedHere(a *cmdline.App, given []string) error {
	if p, err := a.Project(nil); len(given) == 0 && err == nil {
		given = []string{p.Definition.Pipeline} // the server has no such folder
	}
	return cmdline.ReachedFromHere(a, strings.Join(append([]string{"waybill pipeline trust"}, given...), " "))
}

// trustedDefinition returns the definition whose hosts are contacted, and the folder that its files count from: this
// folder's waybill.yaml, unless another pipeline is named.
func trustedDefinition(a *cmdline.App, c *cobra.Command, given []string) (d pipeline.Definition, dir string, err error) {
	p, err := a.Project(nil)
	if len(given) == 0 || err == nil && p.Definition.Pipeline == given[0] {
		return p.Definition, p.Dir, err
	}
	err = a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
		v, err := operation.GetVersion.Call(ctx, s, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: given[0]}})
		d = v.Definition
		return err
	})
	return d, a.ProjectDir(a.Dir), err
}

type trustOptions struct {
	Targets []sshTarget
	Show    func(context.Context, ssh.Target) (ssh.Shown, error)
	Store   func(file string, keys []ssh.Shown) error
	Ask     cmdline.Asker
	Out     show.Printer
}

// keyDocument is one host of `waybill pipeline trust -o json`.
type keyDocument struct {
	Host string `json:"host"`
	ssh.Shown
	Stored bool   `json:"stored"`          // by this command
	Error  string `json:"error,omitempty"` // why the host showed no key
}

// Bounds of fetching hosts' keys.
const keysAtOnce = 16

// runTrust shows the keys of hosts, and stores those that are new after a yes: first of jump hosts, by which the rest
// is reached.
func runTrust(ctx context.Context, o trustOptions) error {
	if len(o.Targets) == 0 {
		return o.Out.Answer([]keyDocument{}, "no ssh hosts")
	}
	behind := slices.IndexFunc(o.Targets, func(t sshTarget) bool { return t.name != jumpName })
	var shown []keyDocument
	for _, targets := range [][]sshTarget{o.Targets[:behind], o.Targets[behind:]} {
		some := askForKeys(ctx, o.Show, targets)
		for _, k := range some {
			if !o.Out.JSON {
				o.Out.Note("%s", describeKey(k))
			}
		}
		if err := storeKeys(ctx, o, some); err != nil {
			return err
		}
		shown = append(shown, some...)
	}
	bad, stored := 0, 0
	for _, k := range shown {
		switch {
		case k.Error != "" || k.Problem != "":
			bad++
		case k.Stored:
			stored++
		}
	}
	text := "no new keys"
	if stored > 0 {
		text = fmt.Sprintf("stored %s in %s", countKeys(stored), o.Targets[0].KnownHosts)
	}
	if err := o.Out.Answer(shown, text); err != nil || bad == 0 {
		return err
	}
	return fault.New(fault.Failed, "%d of %d hosts showed no key that can be trusted", bad, len(shown))
}

// storeKeys stores the new ones among the keys after a yes, and reports it.
func storeKeys(ctx context.Context, o trustOptions, shown []keyDocument) error {
	var fresh []ssh.Shown
	for i, k := range shown {
		if k.Error == "" && k.Problem == "" && !k.Known {
			shown[i].Stored = true
			fresh = append(fresh, k.Shown)
		}
	}
	file := o.Targets[0].KnownHosts
	switch {
	case len(fresh) == 0:
		return nil
	case !o.Ask(ctx, fmt.Sprintf("trust %s?", countKeys(len(fresh)))):
		return fault.New(fault.Refused, "nothing is stored: %s of %s would be new", countKeys(len(fresh)), file).
			WithHint("answer y on a terminal, or set hostKey of each host, and ssh.jumpKey, in waybill.yaml")
	}
	return o.Store(file, fresh)
}

func countKeys(n int) string {
	if n == 1 {
		return "1 host key"
	}
	return fmt.Sprintf("%d host keys", n)
}

// askForKeys fetches the keys of all hosts. Those behind a jump host whose key is not known are errors.
func askForKeys(ctx context.Context, show func(context.Context, ssh.Target) (ssh.Shown, error), targets []sshTarget) []keyDocument {
	shown := make([]keyDocument, len(targets))
	slots := make(chan struct{}, keysAtOnce)
	var wait sync.WaitGroup
	for i, t := range targets {
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			k, err := show(ctx, t.Target)
			shown[i].Host, shown[i].Shown = t.name, k
			if err != nil {
				shown[i].Address, shown[i].Error = t.Address, err.Error()
			}
		})
	}
	wait.Wait()
	return shown
}

func describeKey(k keyDocument) string {
	switch {
	case k.Error != "":
		return fmt.Sprintf("%s  %s", k.Host, k.Error)
	case k.Problem != "":
		return fmt.Sprintf("%s  %s", k.Host, k.Problem)
	case k.Known:
		return fmt.Sprintf("%s  %s  %s  %s  known", k.Host, k.Address, k.Kind, k.Fingerprint)
	}
	return fmt.Sprintf("%s  %s  %s  %s  new", k.Host, k.Address, k.Kind, k.Fingerprint)
}
