package cmdline

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// Completer offers words for an argument or a flag. given are the arguments so far.
type Completer = func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective)

// CompletionPatience bounds a shell's wait for a log or a server.
const CompletionPatience = 2 * time.Second

// FromLog returns a completer that reads the log. It offers nothing when that fails: a shell has no place for an
// error.
func FromLog(a *App, words func(ctx context.Context, s *assembly.Session, given []string) ([]string, error)) Completer {
	return func(c *cobra.Command, given []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(c.Context(), CompletionPatience)
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

// First offers words for the first argument alone.
func First(words Completer) Completer { return InTurn(words) }

// InTurn offers the words of each completer for its own argument.
func InTurn(words ...Completer) Completer {
	return func(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
		if len(given) >= len(words) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return words[len(given)](c, given, begun)
	}
}

// OfferFrom completes flags with words that are looked up.
func OfferFrom(c *cobra.Command, words Completer, flags ...string) {
	for _, flag := range flags {
		_ = c.RegisterFlagCompletionFunc(flag, words) // the flag is declared
	}
}

// Offer completes a flag with fixed words.
func Offer(c *cobra.Command, flag string, words ...string) {
	_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)) // the flag is declared
}

// CompletePipelines offers the names of pipelines for the first argument.
func CompletePipelines(a *App) Completer {
	return First(FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
		return PipelineNames(ctx, s)
	}))
}

// CompleteStages offers the names of pipelines, then the stages of the one named that have an approval.
func CompleteStages(a *App) Completer {
	return InTurn(
		FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
			return PipelineNames(ctx, s)
		}),
		FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
			return approvedStages(ctx, s, given[0])
		}))
}

// CompleteStageOf offers the stages, or environments, of the pipeline that the first argument names; without one, of this folder's.
func CompleteStageOf(a *App) Completer {
	return FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		name, err := a.PipelineName(given)
		if err != nil {
			return nil, err
		}
		return stageNames(ctx, s, name)
	})
}

func approvedStages(ctx context.Context, log operation.Caller, name string) ([]string, error) {
	if service.OfKubernetes(name) {
		return stageNames(ctx, log, name)
	}
	v, err := operation.GetVersion.Call(ctx, log, operation.VersionPath{PipelinePath: operation.PipelinePath{Pipeline: name}})
	var names []string
	for _, stage := range v.Definition.Stages {
		if stage.Approval != nil {
			names = append(names, stage.Name)
		}
	}
	return names, err
}

// stageNames returns the stages of a pipeline; of one of Kubernetes its environments.
func stageNames(ctx context.Context, log operation.Caller, name string) ([]string, error) {
	p, err := operation.GetPipeline.Call(ctx, log, operation.PipelinePath{Pipeline: name})
	var names []string
	for _, stage := range p.Stages {
		names = append(names, stage.Name)
	}
	return names, err
}

func PipelineNames(ctx context.Context, log operation.Caller) ([]string, error) {
	all, err := operation.ListPipelines.Call(ctx, log, operation.Nothing{})
	var names []string
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names, err
}

// CompleteDeployments offers the newest deployments for the first argument, then the targets of the one named.
func CompleteDeployments(a *App) Completer {
	return InTurn(
		FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
			return DeploymentNames(ctx, s)
		}),
		FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
			return TargetNames(ctx, s, given[0])
		}))
}

func DeploymentNames(ctx context.Context, log operation.Caller) ([]string, error) {
	found, err := operation.ListDeployments.Call(ctx, log, operation.DeploymentsInput{Limit: ListLimit})
	var names []string
	for _, d := range found {
		names = append(names, show.RefOf(d).String()+"\t"+string(d.Status)+" "+d.Label)
	}
	if err != nil {
		return names, err
	}
	pipelines, err := PipelineNames(ctx, log)
	for _, name := range pipelines {
		if service.OfKubernetes(name) {
			names = append(names, name)
		}
	}
	return names, err
}

func TargetNames(ctx context.Context, log operation.Caller, deployment string) ([]string, error) {
	ref, err := Resolve(ctx, log, deployment)
	if err != nil {
		return nil, err
	}
	if service.OfKubernetes(ref.Pipeline) {
		return stageNames(ctx, log, ref.Pipeline)
	}
	v, err := operation.GetDeployment.Call(ctx, log, operation.PathOf(ref))
	var names []string
	for _, stage := range v.Stages {
		names = append(names, stage.Name)
		for host := range show.Hosts(stage) {
			names = append(names, strings.TrimPrefix(host.Target, ref.Pipeline+"/"))
		}
	}
	return names, err
}

// CompleteRevisions offers the labels of the pipeline that the first argument names.
func CompleteRevisions(a *App) Completer {
	return FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
		if len(given) == 0 {
			return nil, nil
		}
		return RevisionLabels(ctx, s, given[0])
	})
}

func RevisionLabels(ctx context.Context, log operation.Caller, name string) ([]string, error) {
	found, err := operation.ListRevisions.Call(
		ctx,
		log,
		operation.RevisionsInput{PipelinePath: operation.PipelinePath{Pipeline: name}, Limit: ListLimit},
	)
	var labels []string
	for _, r := range found {
		labels = append(labels, r.Label+"\t"+r.Subject)
	}
	return labels, err
}

// CompleteHosts offers the hosts of this folder's pipeline and the names of pipelines, then the hosts of the one named.
func CompleteHosts(a *App) Completer {
	return InTurn(
		FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) {
			words, err := PipelineNames(ctx, s)
			if own, none := a.PipelineName(nil); none == nil {
				hosts, err := HostNames(ctx, s, own)
				return append(words, hosts...), err
			}
			return words, err
		}),
		FromLog(a, func(ctx context.Context, s *assembly.Session, given []string) ([]string, error) {
			return HostNames(ctx, s, given[0])
		}))
}

func HostNames(ctx context.Context, log operation.Caller, name string) ([]string, error) {
	p, err := operation.GetPipeline.Call(ctx, log, operation.PipelinePath{Pipeline: name})
	var names []string
	for _, h := range p.Hosts {
		names = append(names, strings.TrimPrefix(h.Target, name+"/"))
	}
	return names, err
}

// ListLimit is the number of rows that a list shows unless --limit sets another.
const ListLimit = 20
