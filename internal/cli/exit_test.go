package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
)

// exits holds the ends of a command if something is missing or wrong.
type exits struct {
	arguments string // well-formed arguments
	noLog     int    // in a home without a log
	noServer  int    // with --server, at an address that does not answer
	badConfig int    // with --config, a file with faults
}

// Kinds of commands. A project is a folder with a waybill.yaml, which the test does not have.
var (
	reads    = exits{"", fault.ExitUnavailable, fault.ExitUnavailable, fault.ExitUsage}
	alone    = exits{"", fault.ExitDone, fault.ExitDone, fault.ExitDone}              // neither log, server nor configuration
	here     = exits{"", fault.ExitDone, fault.ExitUsage, fault.ExitDone}             // reads data of this computer, and refuses a server
	projects = exits{"", fault.ExitUsage, fault.ExitUsage, fault.ExitUsage}           // searches for the project first
	makes    = exits{"", fault.ExitUsage, fault.ExitUnavailable, fault.ExitUsage}     // makes the log; what it is asked for is not known there
	beside   = exits{"", fault.ExitUnavailable, fault.ExitUsage, fault.ExitUsage}     // where the log is, not through a server
	builds   = exits{"none", fault.ExitUsage, fault.ExitUnavailable, fault.ExitUsage} // builds of this computer, or of a server
)

func (e exits) with(arguments string) exits { e.arguments = arguments; return e }

// exitStatuses is every command.
var exitStatuses = map[string]exits{
	"action add": makes.with("notify"), "action cancel": reads.with(clitest.SomeAction), "action limits": reads, "action list": reads,
	"action replay": reads.with("--status failed"), "action retry": reads.with(clitest.SomeAction), "action schedules": reads,
	"action show": reads.with(clitest.SomeAction), "action snooze": reads.with(clitest.SomeAction + " --until 2h"),
	"action watch":   reads.with(clitest.SomeAction),
	"approve":        reads.with("greeter prod"),
	"backup":         {"copy.db", fault.ExitUnavailable, fault.ExitUsage, fault.ExitUsage},
	"restore":        {"copy.db", fault.ExitUsage, fault.ExitUsage, fault.ExitUsage},
	"build artifact": builds, "build init": here, "build lint": projects,
	"build list": {"", fault.ExitDone, fault.ExitUnavailable, fault.ExitDone}, "build log": builds,
	"build search": builds.with("text --project shop"), "build run": builds.with("shop"), "build rerun": builds,
	"build cancel": builds, "build delete": builds,
	"build schema": here, "build show": builds, "build vars": projects,
	"completion": alone.with("bash"), "config check": projects, "config accept": projects,
	"deployment alarm": reads.with("greeter#7"), "deployment cancel": reads.with("greeter#7"),
	"deployment create": reads.with("greeter --revision r1"), "deployment hold": reads.with("greeter#7"),
	"deployment list": reads, "deployment resume": reads.with("greeter#7"), "deployment retry": reads.with("greeter#7"),
	"deployment show": reads.with("greeter#7"), "deployment skip": reads.with("greeter#7 prod --reason away"),
	"deployment watch": reads.with("greeter#7"),
	"deployment why":   reads.with("greeter#7"), "log": reads.with("greeter"),
	"pipeline apply": projects, "pipeline install": alone.with("--print"), "pipeline freeze": reads.with("greeter"), "pipeline list": reads, "pipeline thaw": reads.with("greeter"),
	"pipeline show": reads.with("greeter"), "pipeline stop": beside.with("greeter"), "pipeline trust": projects,
	"pipeline validate": projects, "pipeline versions": reads.with("greeter"), "plan": projects,
	"flow list": reads, "flow show": reads.with("shop/orders"), "flow migrate": beside.with("--user waybill"),
	"broker list": reads, "broker show": reads.with("demo-1"),
	"process list": reads, "process run": makes.with("mirror"), "process show": reads.with("mirror"),
	"pipeline history": reads.with("greeter"), "pipeline targets": reads.with("greeter"),
	"pipeline metrics": reads.with("greeter"), "pipeline check": reads.with("apps:podinfo"), "revision diff": reads.with("greeter r1 r2"),
	"revision list": reads.with("greeter"), "revision show": reads.with("greeter r1"),
	"deployment rollback": reads.with("greeter"), "revision reject": reads.with("greeter r1"),
	"revision accept": reads.with("greeter r1"), "revision register": reads.with("greeter r1"),
	"revision artifact": reads.with("greeter r1 --arch any /etc/hosts"), "run": projects, "ship": projects, "status": reads,
	"service list": reads.with("greeter"), "service logs": reads.with("greeter beta/all/oak"),
	"service status":  reads.with("greeter beta/all/oak"),
	"service restart": reads.with("greeter beta/all/oak"),
	"serve":           {"api --listen 127.0.0.1:none", fault.ExitUsage, fault.ExitUsage, fault.ExitUsage},
	"token create":    {"deploys --scope execute", fault.ExitDone, fault.ExitUsage, fault.ExitUsage},
	"token list":      beside, "token revoke": beside.with("deploys"),
	"up":      {"--listen 127.0.0.1:none", fault.ExitUsage, fault.ExitUsage, fault.ExitUsage},
	"version": alone,
}

// Every command ends with the status of the one table (fault.Code.Exit) whatever goes wrong before its own work begins.
func TestExitStatuses(t *testing.T) {
	t.Parallel()
	left := map[string]bool{}
	for name := range exitStatuses {
		left[name] = true
	}
	for _, c := range leaves(rootCommand(&cmdline.App{})) {
		name := strings.TrimPrefix(c.CommandPath(), "waybill ")
		want, ok := exitStatuses[name]
		delete(left, name)
		if !ok {
			t.Errorf("waybill %s is not in the table", name)
			continue
		}
		line := append(strings.Fields(name), strings.Fields(want.arguments)...)
		try := func(want int, more ...string) {
			t.Helper()
			if got, said := execute(t, append(slices.Clone(line), more...)); got != want {
				t.Errorf("waybill %s: exit status %d, want %d\n%s", strings.Join(append(slices.Clone(line), more...), " "), got, want, said)
			}
		}
		try(fault.ExitUsage, "--no-such-flag")
		try(fault.ExitUsage, "-o", "yaml")
		if name != "pipeline trust" { // it takes any number of hosts
			try(fault.ExitUsage, "one", "two", "three", "four")
		}
		try(want.noLog)
		try(want.noServer, "--server", "http://127.0.0.1:1")
		try(want.badConfig, "--config", "bad.yaml")
	}
	for name := range left {
		t.Errorf("the command waybill %s does not exist", name)
	}
}

// leaves are the commands that do something.
func leaves(c *cobra.Command) (all []*cobra.Command) {
	if !c.HasSubCommands() {
		return []*cobra.Command{c}
	}
	for _, sub := range c.Commands() {
		all = append(all, leaves(sub)...)
	}
	return all
}

// execute runs a command line in a folder of its own.
func execute(t *testing.T, line []string) (status int, said string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "bad.yaml"), []byte("servr: {}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := &cmdline.App{Place: assembly.Place{Dir: dir, Environment: func(string) string { return "" }},
		In: strings.NewReader(""), Out: &out, Err: &errs}
	return runLine(t.Context(), a, line), errs.String()
}

// Help is read on terminals of any width, and a line that the terminal breaks leaves the flags' table unreadable.
func TestHelpWraps(t *testing.T) {
	t.Parallel()
	var check func(name string, c *cobra.Command)
	check = func(name string, c *cobra.Command) {
		var out bytes.Buffer
		a := &cmdline.App{In: strings.NewReader(""), Out: &out, Err: &out}
		if status := runLine(t.Context(), a, append(strings.Fields(name), "--help")); status != fault.ExitDone {
			t.Errorf("waybill %s --help: exit status %d", name, status)
		}
		for line := range strings.Lines(out.String()) {
			line = strings.TrimSuffix(line, "\n")
			if columns := utf8.RuneCountInString(line); columns > helpColumns {
				t.Errorf("waybill %s --help has a line of %d columns, more than %d: %s", name, columns, helpColumns, line)
			}
		}
		for _, sub := range c.Commands() {
			check(name+" "+sub.Name(), sub)
		}
	}
	check("", rootCommand(&cmdline.App{}))
}

// Every command shows how it is used, and its arguments are completed unless they are files, folders or new names.
func TestEveryCommandHelps(t *testing.T) {
	t.Parallel()
	written := []string{"[DIR]", "FILE", "token create"}
	for _, c := range leaves(rootCommand(&cmdline.App{})) {
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		free := slices.ContainsFunc(written, func(s string) bool { return strings.Contains(c.CommandPath()+" "+c.Use, s) })
		if takes := len(strings.Fields(c.Use)) > 1; takes && !free && c.ValidArgs == nil && c.ValidArgsFunction == nil {
			t.Errorf("%s completes no argument", c.CommandPath())
		}
	}
}
