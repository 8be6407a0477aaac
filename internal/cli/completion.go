package cli

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

const completionHelp = `Prints a script that teaches your shell Waybill's commands, pipelines and deployments.

  bash:  source <(waybill completion bash)   # needs the package bash-completion
  zsh:   waybill completion zsh > "${fpath[1]}/_waybill"
  fish:  waybill completion fish > ~/.config/fish/completions/waybill.fish`

func completionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish",
		Short:     "Print a completion script for your shell",
		Long:      completionHelp,
		Example:   examples("source <(waybill completion bash)"),
		Args:      arguments(1, 1, "the name of a shell: bash, zsh or fish"),
		ValidArgs: []string{"bash", "zsh", "fish"},
		RunE: func(c *cobra.Command, arguments []string) error {
			switch arguments[0] {
			case "bash":
				return c.Root().GenBashCompletionV2(a.out, true)
			case "zsh":
				return c.Root().GenZshCompletion(a.out)
			case "fish":
				return c.Root().GenFishCompletion(a.out, true)
			}
			return usageFault(c, fault.New(fault.Invalid, "completion for shell %q not found", arguments[0]))
		},
	}
}

// completer offers words for an argument or a flag. given are the arguments so far.
type completer = func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective)

// completionPatience is how long a shell waits for a log or a server.
const completionPatience = 2 * time.Second

// fromLog returns a completer that asks the log. It offers nothing when that fails: a shell has no place for an error.
func fromLog(a *app, words func(ctx context.Context, s *assembly.Session, given []string) ([]string, error)) completer {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
		defer cancel()
		s, err := a.Open(ctx, a.Dir, assembly.Existing)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer s.Close()
		found, err := words(ctx, s, given)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// first offers words for the first argument alone.
func first(words completer) completer { return inTurn(words) }

// inTurn offers the words of each completer for its own argument.
func inTurn(words ...completer) completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(given) >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words[len(given)](c, given, begun)
	}
}

// offerFrom completes flags with words that are looked up.
func offerFrom(c *cobra.Command, words completer, flags ...string) {
	for _, flag := range flags {
		_ = c.RegisterFlagCompletionFunc(flag, words) // the flag is declared
	}
}

// offer completes a flag with fixed words.
func offer(c *cobra.Command, flag string, words ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is declared
}

// completePipelines offers the names of pipelines for the first argument.
func completePipelines(a *app) completer {
	return first(fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		return pipelineNames(ctx, s)
	}))
}

// completeStages offers the names of pipelines, then the stages of the one named that have an approval.
func completeStages(a *app) completer {
	return inTurn(
		fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
			return pipelineNames(ctx, s)
		}),
		fromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
			return approvedStages(ctx, s, given[0])
		}))
}

func approvedStages(ctx context.Context, log server.Caller, name string) ([]string, error) {
	v, err := server.GetVersion.Call(ctx, log, server.VersionPath{PipelinePath: server.PipelinePath{Pipeline: name}})
	var names []string
	for _, stage := range v.Definition.Stages {
		if stage.Approval != nil {
			names = append(names, stage.Name)
		}
	}
	return names, err
}

func pipelineNames(ctx context.Context, log server.Caller) ([]string, error) {
	all, err := server.ListPipelines.Call(ctx, log, server.Nothing{})
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// completeDeployments offers the newest deployments for the first argument, then the targets of the one named.
func completeDeployments(a *app) completer {
	return inTurn(
		fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
			return deploymentNames(ctx, s)
		}),
		fromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
			return targetNames(ctx, s, given[0])
		}))
}

func deploymentNames(ctx context.Context, log deploymentLister) ([]string, error) {
	found, err := log.Deployments(ctx, journal.DeploymentQuery{Limit: listLimit})
	var names []string
	for _, d := range found {
		names = append(names, show.RefOf(d).String()+"\t"+string(d.Status)+" "+d.Label)
	}
	return names, err
}

// deploymentFinder finds a deployment by its name and reads it.
type deploymentFinder interface {
	deploymentLister
	deploymentReader
}

func targetNames(ctx context.Context, log deploymentFinder, deployment string) ([]string, error) {
	ref, err := resolve(ctx, log, deployment)
	if err != nil {
		return nil, err
	}
	v, err := log.Deployment(ctx, ref)
	var names []string
	for _, stage := range v.Stages {
		names = append(names, stage.Name)
		for host := range show.Hosts(stage) {
			names = append(names, strings.TrimPrefix(host.Target, ref.Pipeline+"/"))
		}
	}
	return names, err
}

// completeSteps offers the names of the steps of the deployment that the first argument names.
func completeSteps(a *app) completer {
	return fromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		if len(given) == 0 {
			return nil, nil
		}
		return deploymentSteps(ctx, s, given[0])
	})
}

func deploymentSteps(ctx context.Context, log deploymentFinder, deployment string) ([]string, error) {
	ref, err := resolve(ctx, log, deployment)
	if err != nil {
		return nil, err
	}
	v, err := log.Deployment(ctx, ref)
	var names []string
	add := func(steps []server.StepRun) {
		for _, step := range steps {
			if !slices.Contains(names, step.Name) {
				names = append(names, step.Name)
			}
		}
	}
	for _, stage := range v.Stages {
		add(stage.Steps)
		for host := range show.Hosts(stage) {
			add(host.Steps)
		}
	}
	return names, err
}

// completeFailing offers what may be assumed to fail: fail= and a host of the pipeline that is named, or of this folder's.
func completeFailing(a *app) completer {
	return fromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		name, err := a.pipelineName(given)
		if err != nil {
			return nil, err
		}
		hosts, err := hostNames(ctx, s, name)
		for i, host := range hosts {
			hosts[i] = "fail=" + host
		}
		return hosts, err
	})
}

// completeRevisions offers the labels of the pipeline that the first argument names.
func completeRevisions(a *app) completer {
	return fromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		if len(given) == 0 {
			return nil, nil
		}
		return revisionLabels(ctx, s, given[0])
	})
}

func revisionLabels(ctx context.Context, log server.Caller, name string) ([]string, error) {
	found, err := server.ListRevisions.Call(ctx, log, server.RevisionsInput{PipelinePath: server.PipelinePath{Pipeline: name}, Limit: listLimit})
	var labels []string
	for _, r := range found {
		labels = append(labels, r.Label+"\t"+r.Subject)
	}
	return labels, err
}

// completeHosts offers the hosts of this folder's pipeline and the names of pipelines, then the hosts of the one named.
func completeHosts(a *app) completer {
	return inTurn(
		fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
			words, err := pipelineNames(ctx, s)
			if own, none := a.pipelineName(nil); none == nil {
				hosts, err := hostNames(ctx, s, own)
				return append(words, hosts...), err
			}
			return words, err
		}),
		fromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
			return hostNames(ctx, s, given[0])
		}))
}

func hostNames(ctx context.Context, log server.Caller, name string) ([]string, error) {
	p, err := server.GetPipeline.Call(ctx, log, server.PipelinePath{Pipeline: name})
	var names []string
	for _, h := range p.Hosts {
		names = append(names, strings.TrimPrefix(h.Target, name+"/"))
	}
	return names, err
}

func everyAction(action.Status) bool { return true }

// completeActions offers the newest actions of some statuses.
func completeActions(a *app, wanted func(action.Status) bool) completer {
	return fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		return actionIDs(ctx, s, wanted)
	})
}

func actionIDs(ctx context.Context, log server.Caller, wanted func(action.Status) bool) ([]string, error) {
	found, err := server.ListActions.Call(ctx, log, server.ActionsInput{Limit: 10 * listLimit})
	var ids []string
	for _, x := range found {
		if wanted(x.Thread.Status) && len(ids) < listLimit {
			ids = append(ids, x.ID.String()+"\t"+show.ActionName(x)+" "+strings.ToLower(x.Thread.Status.String()))
		}
	}
	return ids, err
}

// completeLimits offers the lanes that have a limiter.
func completeLimits(a *app) completer {
	return fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) { return laneNames(ctx, s) })
}

func laneNames(ctx context.Context, log server.Caller) ([]string, error) {
	limits, err := server.ListLimits.Call(ctx, log, server.Nothing{})
	var lanes []string
	for _, l := range limits {
		lanes = append(lanes, l.Key+"\t"+l.State)
	}
	return lanes, err
}

// completeTokens offers the names of tokens. A server does not list them.
func completeTokens(a *app) completer {
	return fromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		if s.Kind == assembly.Remote {
			return nil, nil
		}
		return tokenNames(ctx, s.Ledger, time.Now())
	})
}

// tokenNames lists the tokens that may be revoked.
func tokenNames(ctx context.Context, tokens tokenLister, now time.Time) ([]string, error) {
	found, err := tokens.ListTokens(ctx)
	var names []string
	for _, t := range found {
		if t.RevokedAt.IsZero() {
			names = append(names, t.Name+"\t"+show.TokenState(t, now))
		}
	}
	return names, err
}

// completeBuilds offers the builds of this computer for the first argument, then the steps of the one named.
func completeBuilds(a *app) completer {
	return func(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		var words []string
		switch shelf := a.builds(); len(given) {
		case 0:
			for _, s := range shelf.summaries() {
				words = append(words, s.ID+"\t"+string(s.Status))
			}
		case 1:
			words = shelf.stepNames(given[0])
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeOwnBuilds offers the builds of this computer for the only argument, unless a server is asked.
func completeOwnBuilds(a *app) completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		if a.Flags.Server != "" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return first(completeBuilds(a))(c, given, begun)
	}
}
