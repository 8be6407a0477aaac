package cli

import (
	"context"
	"encoding/json"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func (a *app) processCommand() *cobra.Command {
	return group("process", "Execute processes of server.yaml, and describe them",
		"A process is a handler with a version and described inputs; each execution is a job, an action of kind job.",
		a.processListCommand(), a.processShowCommand(), a.processRunCommand())
}

func (a *app) processListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List processes",
		Example: examples("waybill process list", "waybill process list -o json"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				all, err := s.ListProcesses(ctx)
				if err != nil {
					return err
				}
				return show.List(a.printer(), all, "no processes", show.Processes)
			})
		},
	}
}

func (a *app) processShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show PROCESS",
		Short:             "Show a process with its inputs and outputs",
		Example:           examples("waybill process show mirror"),
		Args:              arguments(1, 1, "PROCESS"),
		ValidArgsFunction: first(a.configured(processNames)),
		RunE: func(c *cobra.Command, given []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				p, err := s.ShowProcess(ctx, given[0])
				if err != nil {
					return err
				}
				return a.printer().Answer(p, show.Process(p)...)
			})
		},
	}
}

func (a *app) processRunCommand() *cobra.Command {
	var inputs []string
	var all string
	var watch bool
	c := &cobra.Command{
		Use:   "run PROCESS",
		Short: "Execute a process: store a job, or find the one that answers for the same payload",
		Long: `Stores a job and prints its id, or the id of the job that answers for the same payload already.
An input is -i name=text, or -i name:=JSON for any other value; --inputs takes all of
them as one JSON object, or from a file as @FILE. With --watch the exit status is 1 when the job
fails, and 4 when it is canceled.`,
		Example: examples(`waybill process run mirror -i 'payload:={"features": []}' --watch`,
			"waybill process run mirror --inputs @payload.json"),
		Args:              arguments(1, 1, "PROCESS"),
		ValidArgsFunction: first(a.configured(processNames)),
		RunE: func(c *cobra.Command, given []string) error {
			raw, err := a.readInputs(inputs, all)
			if err != nil {
				return err
			}
			return a.runProcess(c.Context(), given[0], raw, watch)
		},
	}
	c.Flags().StringArrayVarP(&inputs, "input", "i", nil, "name=text or name:=JSON; may be repeated")
	c.Flags().StringVar(&all, "inputs", "", "all inputs: a JSON object, or @FILE")
	c.Flags().BoolVar(&watch, "watch", false, "show the job until it has ended")
	c.MarkFlagsMutuallyExclusive("input", "inputs")
	offerFrom(c, a.assignments(inputNames), "input")
	return c
}

// readInputs makes a JSON object of the flags.
func (a *app) readInputs(inputs []string, all string) (json.RawMessage, error) {
	if all == "" {
		return readAssignments("-i", "input", inputs)
	}
	raw := []byte(all)
	if file, ok := strings.CutPrefix(all, "@"); ok {
		var err error
		if raw, err = os.ReadFile(a.Path(file)); err != nil {
			return nil, fault.New(fault.Invalid, "--inputs: read %s: %w", file, assembly.Plain(err))
		}
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fault.New(fault.Invalid, "--inputs: want a JSON object")
	}
	return raw, nil
}

func (a *app) runProcess(ctx context.Context, process string, inputs json.RawMessage, watch bool) error {
	s, err := a.Open(ctx, a.Dir, assembly.Create)
	if err != nil {
		return err
	}
	defer s.Close()
	made, err := s.RunProcess(ctx, process, inputs, a.User())
	if err != nil {
		return err
	}
	return a.ordered(ctx, s, made, watch)
}
