package cmdline

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// Resolve returns the deployment that a person named: greeter#7, its id, or a pipeline for its newest deployment.
func Resolve(ctx context.Context, log operation.Caller, text string) (service.Ref, error) {
	if id, err := action.ParseID(text); err == nil {
		return byID(ctx, log, id)
	}
	if strings.ContainsAny(text, "#/") || service.OfKubernetes(text) {
		return service.ParseRef(text)
	}
	newest, err := operation.ListDeployments.Call(ctx, log, operation.DeploymentsInput{Pipeline: text, Limit: 1})
	if err != nil {
		return service.Ref{}, err
	}
	if len(newest) == 0 {
		return service.Ref{}, fault.New(fault.NotFound, "%s has no deployment yet", text).WithHint("waybill ship")
	}
	return show.RefOf(newest[0]), nil
}

// WithDeployment opens the log and finds the deployment that the first argument names; without one, the newest of this
// folder's pipeline.
func WithDeployment(
	a *App,
	do func(ctx context.Context, s *assembly.Session, ref service.Ref, rest []string) error,
) func(*cobra.Command, []string) error {
	return WithLog(a, func(ctx context.Context, s *assembly.Session, arguments []string) error {
		name, err := a.PipelineName(arguments)
		if err != nil {
			return err
		}
		ref, err := Resolve(ctx, s, name)
		if err != nil {
			return err
		}
		return do(ctx, s, ref, arguments[min(1, len(arguments)):])
	})
}

// WithPipeline opens the log for a command whose first argument names a pipeline; without one it is this folder's.
func WithPipeline(a *App,
	do func(ctx context.Context, s *assembly.Session, name string) error) func(*cobra.Command, []string) error {
	return WithLog(a, func(ctx context.Context, s *assembly.Session, arguments []string) error {
		name, err := a.PipelineName(arguments)
		if err != nil {
			return err
		}
		return do(ctx, s, name)
	})
}

// WithLog opens the log for a command.
func WithLog(a *App,
	do func(ctx context.Context, s *assembly.Session, arguments []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, arguments []string) error {
		return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error { return do(ctx, s, arguments) })
	}
}

// WithAction opens the log for a command whose first argument is an action's id.
func WithAction(a *App, do func(ctx context.Context, s *assembly.Session, id action.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, arguments []string) error {
		id, err := action.ParseID(arguments[0])
		if err != nil {
			return fault.Wrap(fault.Invalid, err).WithHint("waybill action list")
		}
		return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error { return do(ctx, s, id) })
	}
}

// byID returns the deployment with an id.
func byID(ctx context.Context, log operation.Caller, id action.ID) (service.Ref, error) {
	d, err := operation.GetDeployment.Call(ctx, log, operation.DeploymentPath{ID: id.String()})
	if fault.Is(err, fault.NotFound) {
		return service.Ref{}, fault.New(fault.NotFound, "deployment %s not found", id).WithHint("waybill deployment list")
	}
	return show.RefOf(d.Deployment), err
}

// PipelineName returns the pipeline that was named, else that of this folder's waybill.yaml.
func (a *App) PipelineName(arguments []string) (string, error) {
	if len(arguments) > 0 {
		return arguments[0], nil
	}
	dir := a.ProjectDir(a.Dir)
	if _, err := os.Stat(filepath.Join(dir, assembly.ProjectFile)); errors.Is(err, fs.ErrNotExist) {
		return "", fault.New(fault.Invalid, "%s not found in %s: which pipeline?", assembly.ProjectFile, dir).
			WithHint("name it; waybill pipeline list shows the pipelines")
	}
	p, err := a.Project(nil)
	return p.Definition.Pipeline, err
}
