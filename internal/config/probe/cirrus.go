package probe

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/yamltree"
)

// Account returns a client of the account that a handler names. A handler works with the client that its probe had.
func Account(ctx context.Context, cfg config.Handler) (*aws.Account, error) {
	account, err := aws.Open(ctx, aws.Config{Region: cfg.Cirrus.Region, Endpoint: cfg.Cirrus.Endpoint, Profile: cfg.Cirrus.Profile})
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", cfg.Name, err)
	}
	return account, nil
}

// cirrus searches for a handler's queues, and for the state machines of its processes.
func (l *looker) cirrus(ctx context.Context, at []string, cfg config.Config, h config.Handler) {
	conf := append(at, "cirrusConf")
	account, err := Account(ctx, h)
	if err != nil {
		l.look(ctx, conf, func(context.Context) error { return absent(err) })
		return
	}
	for key, queue := range map[string]string{"sqsUrl": h.Cirrus.SqsURL, "eventsQueueUrl": h.Cirrus.EventsQueueURL} {
		if queue != "" {
			l.look(ctx, append(conf, key), func(ctx context.Context) error { return judged(account.FindQueue(ctx, queue)) })
		}
	}
	machines := cfg.CirrusProcesses(h.Name)
	for _, process := range slices.Sorted(maps.Keys(machines)) {
		if arn := machines[process]; arn != "" {
			l.look(ctx, []string{"workflows", process, "cirrusOpts", "sfnArn"}, func(ctx context.Context) error {
				return judged(account.FindMachine(ctx, arn))
			})
		}
	}
}

// judged separates a refusal of AWS, which is notThere, from the lack of an answer.
func judged(err error) error {
	if err == nil {
		return nil
	}
	if _, code := aws.Judge(err); code == Unreachable {
		return err
	}
	return notThere{err}
}

// Regions reports the handlers for AWS whose region is neither in the file nor in the environment or the profile. An
// instance that serves one of these handlers would not start.
func Regions(ctx context.Context, path string, source []byte, cfg config.Config) (problems fault.Problems) {
	root, _ := yamltree.Parse(path, source, len(source)) // config.Check has reported its faults
	for name, h := range cfg.Handlers {
		if h.Cirrus == nil {
			continue
		}
		if _, err := Account(ctx, h); err != nil {
			at := []string{"handlers", name, "cirrusConf"}
			problems = append(problems, fault.Problem{Position: positionOf(root, at), Code: "field-missing", Scope: scopeOf(at),
				Text: inOneLine(err.Error())})
		}
	}
	return problems
}
