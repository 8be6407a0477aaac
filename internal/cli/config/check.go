// Package config has the commands of server.yaml: waybill config.
package config

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/config/probe"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/file"
	"github.com/waybill-dev/waybill/internal/osb"
)

// Command returns `waybill config` with every command below it.
func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("config", "Look at the configuration of the control plane",
		"server.yaml says where the log is and which handlers there are.",
		configCheckCommand(a), configAcceptCommand(a))
}

func configCheckCommand(a *cmdline.App) *cobra.Command {
	var live bool
	c := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Report every fault of server.yaml",
		Long: `Reads FILE, else --config, WAYBILL_CONFIG or the home's server.yaml, and reports every fault with
its place: keys, references, templates, schemas, response rules. With --live it also looks for what
the file names, from here: secrets, hosts of webhooks, workflow templates, kinds that event flows
need, state machines, queues, the bucket. The exit status is 2 when there are faults, 3 when all is
there but something does not answer, and 0 when there are only warnings.`,
		Example: cmdline.Examples("waybill config check", "waybill config check --live", "waybill config check deploy/server.yaml -o json"),
		Args:    cmdline.Arguments(0, 1, "FILE"),
		RunE: func(c *cobra.Command, given []string) error {
			home := a.HomeOf(a.Dir)
			path, named := a.ConfigPath(home)
			if len(given) > 0 {
				path, named = a.Path(given[0]), true
			}
			if !named {
				if err := a.TrustHome(home); err != nil {
					return err
				}
			}
			return checkConfig(c.Context(), a, path, live)
		},
	}
	c.Flags().BoolVar(&live, "live", false, "look for what the file names, too: secrets, hosts, templates, kinds, state machines, queues, the bucket")
	return c
}

// configStarter is the hint for a server.yaml that does not exist yet.
const configStarter = `do without, for waybill ship and waybill up need none; or describe a handler in it, such as:

    handlers:
      notify:
        type: webhook
        parameters: {text: {type: string}}
        request: {url: "https://hooks.example.org/notify"}`

func checkConfig(ctx context.Context, a *cmdline.App, path string, live bool) error {
	source, err := file.Read(path, file.Most)
	if err != nil {
		wrong := fault.New(fault.Invalid, "read the configuration %s: %w", a.Shorten(path), file.Plain(err))
		if errors.Is(err, fs.ErrNotExist) {
			return wrong.WithHint("%s", configStarter)
		}
		return wrong
	}
	config, problems := config.Check(path, source)
	problems = append(problems, probe.Regions(ctx, path, source, config)...)
	problems = append(problems, checkCatalog(&config)...)
	problems.Sort()
	if live && problems.Err() == nil {
		problems = append(problems, probe.All(ctx, path, source, config)...)
		problems.Sort()
	}
	if a.JSON() {
		if err := a.Printer().Document(show.Items(problems)); err != nil {
			return err
		}
		return configFault(problems)
	}
	a.PrintProblems(problems)
	if err := configFault(problems); err != nil {
		faults := len(problems) - len(problems.Warnings())
		fmt.Fprintf(a.Err, "waybill: %s\n", show.Count(faults, "problem"))
		return err
	}
	callbacks := 0
	for _, w := range config.Processes {
		callbacks += len(w.Callbacks)
	}
	_, err = fmt.Fprintf(a.Out, "%s is sound: %s, %s, %s, %s, %s\n", a.Shorten(path), show.Count(len(config.Handlers), "handler"),
		show.Count(len(config.Processes), "process"), show.Count(callbacks, "callback"), show.Count(len(config.Schedules), "schedule"),
		show.Count(len(config.Triggers), "trigger"))
	return err
}

// checkCatalog returns the faults of the service broker's catalog.
func checkCatalog(c *config.Config) fault.Problems {
	if c.Broker == nil || c.Broker.Catalog == "" {
		return nil
	}
	content, err := file.Read(c.Broker.Catalog, osb.CatalogFile)
	if err != nil {
		return fault.Problems{{Position: fault.Position{File: c.Broker.Catalog}, Code: "file", Text: "read the catalog: " + file.Plain(err).Error()}}
	}
	_, problems := broker.ParseCatalog(c.Broker.Catalog, content, assembly.BrokerOffer(c))
	return problems
}

// configFault returns the error for problems that have been shown. When all of the problems are things that do not answer,
// the file is not at fault.
func configFault(problems fault.Problems) error {
	err := problems.Err()
	if err == nil {
		return nil
	}
	if !slices.ContainsFunc(problems, func(p fault.Problem) bool { return !p.Warning && p.Code != probe.Unreachable }) {
		return cmdline.Printed(fault.New(fault.Unavailable, "%s", err)) // not the problems themselves: their code is that of a wrong file
	}
	return cmdline.Printed(err)
}
