package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

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

// listLimit is how many rows a list shows unless --limit says otherwise.
const listLimit = 20
