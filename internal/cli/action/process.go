package action

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/service"
)

func ProcessCommand(a *cmdline.App) *cobra.Command {
	return cmdline.Group("process", "Execute processes of server.yaml, and describe them",
		"A process is a handler with a version and described inputs; each execution is a job, an action of\nkind job.",
		processListCommand(a), processShowCommand(a), processRunCommand(a))
}

func processListCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List processes",
		Example: cmdline.Examples("waybill process list", "waybill process list -o json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, _ []string) error {
			return runListProcesses(ctx, listProcessesOptions{Processes: s, Out: a.Printer()})
		}),
	}
}

type listProcessesOptions struct {
	Processes interface {
		ListProcesses(context.Context) ([]service.ProcessOffering, error)
	}
	Out show.Printer
}

// runListProcesses prints the processes of the configuration in force.
func runListProcesses(ctx context.Context, o listProcessesOptions) error {
	all, err := o.Processes.ListProcesses(ctx)
	if err != nil {
		return err
	}
	return show.List(o.Out, all, "no processes", show.Processes)
}

func processShowCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:               "show PROCESS",
		Short:             "Show a process with its inputs and outputs",
		Example:           cmdline.Examples("waybill process show mirror"),
		Args:              cmdline.Arguments(1, 1, "PROCESS"),
		ValidArgsFunction: cmdline.First(cmdline.CompleteConfigured(a, cmdline.ProcessNames)),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, given []string) error {
			return runShowProcess(ctx, showProcessOptions{Processes: s, ID: given[0], Out: a.Printer()})
		}),
	}
}

type showProcessOptions struct {
	Processes interface {
		ShowProcess(ctx context.Context, id string) (service.ProcessOffering, error)
	}
	ID  string
	Out show.Printer
}

// runShowProcess prints one process.
func runShowProcess(ctx context.Context, o showProcessOptions) error {
	p, err := o.Processes.ShowProcess(ctx, o.ID)
	if err != nil {
		return err
	}
	return o.Out.Answer(p, show.Process(p)...)
}

func processRunCommand(a *cmdline.App) *cobra.Command {
	var inputs []string
	var all string
	var watch bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "run PROCESS",
		Short: "Execute a process: store a job, or find the one that answers for the same payload",
		Long: `Stores a job and prints its id, or the id of the job that answers for the same payload already.
An input is -i name=text, or -i name:=JSON for any other value; --inputs takes all of
them as one JSON object, or from a file as @FILE. With --watch the exit status is 1 when the job
fails, and 4 when it is canceled.`,
		Example: cmdline.Examples(`waybill process run mirror -i 'payload:={"features": []}' --watch`,
			"waybill process run mirror --inputs @payload.json"),
		Args:              cmdline.Arguments(1, 1, "PROCESS"),
		ValidArgsFunction: cmdline.First(cmdline.CompleteConfigured(a, cmdline.ProcessNames)),
		RunE: func(c *cobra.Command, given []string) error {
			if err := cmdline.Exclusive(c, "inputs", "input"); err != nil {
				return err
			}
			raw, err := readInputs(a, inputs, all)
			if err != nil {
				return err
			}
			return a.CreateSession(c, func(ctx context.Context, s *assembly.Session) error {
				return runExecute(ctx, executeOptions{Processes: s, ID: given[0], Inputs: raw, By: a.User(),
					Then: newAfterAdding(a, s, watch, timeout)})
			})
		},
	}
	c.Flags().StringArrayVarP(&inputs, "input", "i", nil, "name=text or name:=JSON; may be repeated")
	c.Flags().StringVar(&all, "inputs", "", "all inputs: a JSON object, or @FILE")
	c.Flags().BoolVar(&watch, "watch", false, "show the job until it has ended")
	cmdline.AddTimeout(c, &timeout, "with --watch: "+cmdline.StopWatching)
	cmdline.OfferFrom(c, cmdline.CompleteAssignments(a, cmdline.InputNames), "input")
	return c
}

// readInputs returns the inputs that the flags name as a JSON object.
func readInputs(a *cmdline.App, inputs []string, all string) (json.RawMessage, error) {
	if all == "" {
		return readAssignments("-i", "input", inputs)
	}
	raw := []byte(all)
	if name, ok := strings.CutPrefix(all, "@"); ok {
		var err error
		if raw, err = file.Read(a.Path(name), file.Most); err != nil {
			return nil, fault.New(fault.Invalid, "--inputs: read %s: %w", name, file.Plain(err))
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fault.New(fault.Invalid, "--inputs: want a JSON object")
	}
	return raw, nil
}

type executeOptions struct {
	Processes interface {
		RunProcess(ctx context.Context, id string, inputs json.RawMessage, by string) (service.AddedAction, error)
	}
	ID     string
	Inputs json.RawMessage
	By     string
	Then   afterAdding
}

// runExecute stores a job of a process, or finds the job that answers for the same payload.
func runExecute(ctx context.Context, o executeOptions) error {
	made, err := o.Processes.RunProcess(ctx, o.ID, o.Inputs, o.By)
	if err != nil {
		return err
	}
	return o.Then.run(ctx, made)
}
