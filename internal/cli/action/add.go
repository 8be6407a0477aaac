package action

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
)

// addFlags are the flags of `waybill action add`.
type addFlags struct {
	parameters []string
	at         string
	priority   int
	watch      bool
	timeout    time.Duration // limit of watching; 0: none
	order      operation.AddActionInput
}

func actionAddCommand(a *cmdline.App) *cobra.Command {
	var flags addFlags
	c := &cobra.Command{
		Use:   "add HANDLER",
		Short: "Have something done by a handler of server.yaml",
		Long: `Stores an action and prints its id. A conductor does the work: waybill up, or waybill serve
conductor. A parameter is -p name=text, or -p name:=JSON for any other value.
With --watch the exit status is 1 when the action fails, and 4 when it is canceled.`,
		Example: cmdline.Examples(`waybill action add notify -p team=web -p text="r42 is live" --watch`,
			"waybill action add tidy -p 'days:=30' --at 2026-12-01T03:00:00Z --unique-key tidy"),
		Args:              cmdline.Arguments(1, 1, "HANDLER"),
		ValidArgsFunction: cmdline.First(cmdline.CompleteConfigured(a, cmdline.OrderNames)),
		RunE: func(c *cobra.Command, given []string) error {
			flags.order.Body.Handler = given[0]
			if err := flags.read(time.Now()); err != nil {
				return err
			}
			return a.CreateSession(c, func(ctx context.Context, s *assembly.Session) error {
				return runAddAction(ctx, addActionOptions{Actions: s, Order: flags.order, Then: newAfterAdding(a, s, flags.watch, flags.timeout)})
			})
		},
	}
	c.Flags().StringArrayVarP(&flags.parameters, "parameter", "p", nil, "name=text or name:=JSON; may be repeated")
	c.Flags().StringVar(&flags.at, "at", "", "not before this time (RFC 3339), or this far from now, such as 2h")
	c.Flags().IntVar(&flags.priority, "priority", action.DefaultPriority, "0 to 1000, lower goes first")
	c.Flags().StringVar(&flags.order.Body.UniqueKey, "unique-key", "", "unique among live actions")
	c.Flags().StringVar(&flags.order.Body.OnConflict, "on-conflict", "return",
		"when the key is that of a live action: return it, reject this one, or replace it unless its attempt runs")
	c.Flags().StringVar(&flags.order.Body.Deadline, "deadline", "",
		"give up after this time, such as 2h or 7d; never (default: the handler's)")
	c.Flags().StringVar(&flags.order.IdempotencyKey, "idempotency-key", "", "for a day the same request with this key returns the same action")
	c.Flags().BoolVar(&flags.watch, "watch", false, "show the action until it has ended")
	cmdline.AddTimeout(c, &flags.timeout, "with --watch: "+cmdline.StopWatching)
	cmdline.Offer(c, "on-conflict", queue.OnConflicts()...)
	cmdline.OfferFrom(c, cmdline.CompleteAssignments(a, cmdline.ParameterNames), "parameter")
	return c
}

// read turns the flags into the order.
func (f *addFlags) read(now time.Time) (err error) {
	if f.order.Body.Parameters.RawMessage, err = readAssignments("-p", "parameter", f.parameters); err != nil {
		return err
	}
	if f.priority < 0 || f.priority > 1000 {
		return fault.New(fault.Invalid, "--priority %d: want 0 to 1000", f.priority)
	}
	f.order.Body.Priority = &f.priority
	if way := f.order.Body.OnConflict; !slices.Contains(queue.OnConflicts(), way) {
		return fault.New(fault.Invalid, "--on-conflict %s: want %s", way, strings.Join(queue.OnConflicts(), ", "))
	}
	f.order.Body.At, err = cmdline.ReadAt("--at", f.at, now)
	return err
}

// readAssignments returns the name=text and name:=JSON of a flag as a JSON object. word is the noun for one of them.
func readAssignments(flag, word string, given []string) (json.RawMessage, error) {
	parameters := map[string]json.RawMessage{}
	for _, text := range given {
		name, value, ok := strings.Cut(text, "=")
		if !ok || strings.TrimSuffix(name, ":") == "" {
			return nil, fault.New(fault.Invalid, "%s %s: want name=text or name:=JSON", flag, text)
		}
		raw, err := json.Marshal(value)
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s %s: %w", flag, text, err)
		}
		if typed, ok := strings.CutSuffix(name, ":"); ok {
			if name, raw = typed, json.RawMessage(value); !json.Valid(raw) {
				return nil, fault.New(fault.Invalid, "%s %s: %q is not valid JSON", flag, text, value).
					WithHint("%s %s=%s, if it is text", flag, name, value)
			}
		}
		if _, there := parameters[name]; there {
			return nil, fault.New(fault.Invalid, "%s %s: the %s %q is given twice", flag, text, word, name)
		}
		parameters[name] = raw
	}
	return json.Marshal(parameters)
}

type addActionOptions struct {
	Actions operation.Caller
	Order   operation.AddActionInput
	Then    afterAdding
}

// runAddAction stores an action, and shows it when that is wanted.
func runAddAction(ctx context.Context, o addActionOptions) error {
	made, err := operation.AddAction.Call(ctx, o.Actions, o.Order)
	if err != nil {
		return err
	}
	return o.Then.run(ctx, made)
}
