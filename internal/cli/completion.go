package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/ledger"
)

const completionHelp = `Prints a script that teaches your shell Waybill's commands, pipelines and deployments.

  bash:  source <(waybill completion bash)   # needs the package bash-completion
  zsh:   waybill completion zsh > "${fpath[1]}/_waybill"
  fish:  waybill completion fish > ~/.config/fish/completions/waybill.fish`

func (a *app) completionCommand() *cobra.Command {
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
			return usageFault(c, errNoShell(arguments[0]))
		},
	}
}

type errNoShell string

func (e errNoShell) Error() string { return "there is no completion for " + string(e) }

// completionPatience is how long a shell waits for a log or a server.
const completionPatience = 2 * time.Second

// complete asks the log for words; what goes wrong is not the shell's business.
func (a *app) complete(c *cobra.Command, words func(ctx context.Context, s *assembly.Session) ([]string, error)) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(c.Context(), completionPatience)
	defer cancel()
	s, err := a.Open(ctx, a.Dir, assembly.Existing)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer s.Close()
	found, err := words(ctx, s)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp
}

// completePipelines offers the names of pipelines for the first argument.
func (a *app) completePipelines(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, pipelineNames)
}

func pipelineNames(ctx context.Context, s *assembly.Session) ([]string, error) {
	all, err := s.Pipelines(ctx)
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// completeDeployments offers the newest deployments for the first argument, then the targets of the one named.
func (a *app) completeDeployments(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(given) {
	case 0:
		return a.complete(c, deploymentNames)
	case 1:
		return a.complete(c, func(ctx context.Context, s *assembly.Session) ([]string, error) { return targetNames(ctx, s, given[0]) })
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func deploymentNames(ctx context.Context, s *assembly.Session) ([]string, error) {
	found, err := s.Deployments(ctx, ledger.DeploymentQuery{Limit: listLimit})
	var names []string
	for _, d := range found {
		names = append(names, show.RefOf(d).String()+"\t"+string(d.Status)+" "+d.Label)
	}
	return names, err
}

func targetNames(ctx context.Context, s *assembly.Session, deployment string) ([]string, error) {
	ref, err := resolve(ctx, s, deployment)
	if err != nil {
		return nil, err
	}
	v, err := s.Deployment(ctx, ref)
	var names []string
	for _, stage := range v.Stages {
		names = append(names, stage.Name)
		for host := range show.Hosts(stage) {
			names = append(names, strings.TrimPrefix(host.Target, ref.Pipeline+"/"))
		}
	}
	return names, err
}

// completeRevisions offers the labels of the pipeline that the first argument names.
func (a *app) completeRevisions(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(given) == 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, s *assembly.Session) ([]string, error) {
		found, err := s.Revisions(ctx, given[0], listLimit)
		var labels []string
		for _, r := range found {
			labels = append(labels, r.Label+"\t"+r.Subject)
		}
		return labels, err
	})
}

// completer offers words for an argument or a flag.
type completer = func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective)

// first offers words for the first argument, and none for others.
func first(words completer) completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(given) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words(c, given, begun)
	}
}

// offerFrom completes flags with words that are looked up.
func offerFrom(c *cobra.Command, words completer, flags ...string) {
	for _, flag := range flags {
		_ = c.RegisterFlagCompletionFunc(flag, words) // the flag is there
	}
}

// offer completes a flag with fixed words.
func offer(c *cobra.Command, flag string, words ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is there
}

func everyAction(action.Status) bool { return true }

// completeActions offers the newest actions of some statuses.
func (a *app) completeActions(wanted func(action.Status) bool) completer {
	return func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return a.complete(c, func(ctx context.Context, s *assembly.Session) ([]string, error) {
			found, err := s.Actions(ctx, ledger.ActionQuery{Limit: 10 * listLimit})
			var ids []string
			for _, x := range found {
				if wanted(x.Thread.Status) && len(ids) < listLimit {
					ids = append(ids, x.ID.String()+"\t"+show.ActionName(x)+" "+strings.ToLower(x.Thread.Status.String()))
				}
			}
			return ids, err
		})
	}
}

// completeTokens offers the names of tokens.
func (a *app) completeTokens(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	if a.Flags.Server != "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.complete(c, func(ctx context.Context, s *assembly.Session) ([]string, error) {
		tokens, err := s.Ledger.ListTokens(ctx)
		var names []string
		for _, t := range tokens {
			names = append(names, t.Name+"\t"+show.TokenState(t, time.Now()))
		}
		return names, err
	})
}

// completeBuilds offers the builds of this computer for the first argument, then the steps of the one named.
func (a *app) completeBuilds(_ *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
	var words []string
	switch len(given) {
	case 0:
		for _, s := range a.summaries() {
			words = append(words, s.ID+"\t"+string(s.Status))
		}
	case 1:
		r, err := a.openBuild(given[0])
		if err != nil {
			break
		}
		if b, err := r.Build(); err == nil {
			for i := range b.Plan.Steps {
				words = append(words, b.Plan.Steps[i].Path())
			}
		}
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
