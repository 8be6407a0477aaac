package definition

import (
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/document"
)

// Built-in steps, and the reactions of a stage to its failure.
var (
	builtIn   = []string{"replicate", "deploy", "test"}
	onFailure = []string{"release", "hold", "rollback"}
	queues    = []string{"fifo", "latest", "false"}
)

// file is the field table of waybill.yaml. Reader, suggestions and JSON Schema follow it.
var file = []document.Key{
	{Name: "pipeline", Shape: document.Text, Required: true,
		Help: "Name of the pipeline: a-z, 0-9 and -, at most 63; the default service name."},
	{Name: "order", Shape: document.Text, Values: []string{"runnable", "strict"}, Default: "runnable",
		Help: "runnable: any deployment that can continue does; strict: no deployment passes an older one."},
	{Name: "pin", Shape: document.Flag, Default: "false", Help: "true: a deployment keeps the definition version under which it was created."},
	{Name: "keep", Shape: document.Object, Keys: keep, Help: "How much stays."},
	{Name: "service", Shape: document.Object, Keys: service, Help: "What runs on a host; stage, group and host may override single fields."},
	{Name: "vars", Shape: document.ScalarMap,
		Help: "Values of ${name} in argument lists, env, secrets and tests; stage, group and host override."},
	{Name: "steps", Shape: document.Anything, Default: "replicate, deploy, and test when there are tests",
		Help: "Chain of every host, in order; an item is replicate, deploy, test or an own step."},
	{Name: "test", Shape: document.Objects, Keys: check, Help: "Checks of a deployed host; all must pass."},
	{Name: "retry", Shape: document.Object, Keys: retry, Help: "How often and how long a step is tried."},
	{Name: "ssh", Shape: document.Object, Keys: reach, Help: "How ssh hosts are reached."},
	{Name: "stages", Shape: document.Objects, Keys: stage, Required: true, Help: "The stages; without after, each follows the one above."},
	{Name: "batches", Shape: document.Objects, Keys: batch, Help: "Ranges of stages that one deployment holds at a time."},
}

var reach = []document.Key{
	{Name: "user", Shape: document.Text, Help: "Account on hosts whose URL names none."},
	{Name: "port", Shape: document.Number, Default: "22", Help: "Port of hosts whose URL names none."},
	{Name: "identity", Shape: document.Text, Default: "the keys of the ssh-agent, and those in ~/.ssh",
		Help: "File of the private key, without a passphrase; ~/ is the home of Waybill's user."},
	{Name: "knownHosts", Shape: document.Text, Default: "known_hosts in the home", Help: "File of host keys, in the format of OpenSSH."},
	{Name: "jump", Shape: document.Text, Help: "ssh://USER@HOST[:PORT] of a host that leads to the others."},
	{Name: "jumpKey", Shape: document.Text, Help: "Fingerprint of the jump host's key, SHA256:…; default: one of knownHosts."},
	{Name: "sudo", Shape: document.Flag, Default: "false", Help: "Run the host program as root, by sudo -n."},
}

var keep = []document.Key{
	{Name: "releases", Shape: document.Number, Default: "5", Help: "Releases that stay on each host."},
	{Name: "entries", Shape: document.Duration, Default: "400d",
		Help: "Age at which ended deployments are archived: their entries move from the log to the blob store. At least 1h; a " +
			"deployment stays for at least a day."},
}

var service = []document.Key{
	{Name: "name", Shape: document.Text, Help: "Name of the service on its host; default: the pipeline's name."},
	{Name: "manager", Shape: document.Text, Values: []string{"systemd", "process", "none"},
		Help: "Who runs the service: systemd, the supervisor of Waybill (process), or neither; default: process when exec is " +
			"set, systemd when unit is, else none."},
	{Name: "exec", Shape: document.Scalars, Help: "Argument list, started in the release; never a shell line."},
	{Name: "unit", Shape: document.Text,
		Help: "A unit of systemd that exists on the host, such as greeter.service, instead of exec; it is restarted or reloaded, never written."},
	{Name: "restart", Shape: document.Text, Values: []string{"restart", "reload", "none"}, Default: "restart",
		Help: "What a new release does to the running service."},
	{Name: "shared", Shape: document.Texts, Help: "Names linked from shared/ into every release."},
	{Name: "env", Shape: document.ScalarMap,
		Help: "Environment of the service, name to text, which may use ${name}; stage, group and host override single names. " +
			"Public: passwords belong in secrets."},
	{Name: "secrets", Shape: document.Anything, Help: "Environment name to {file: …}; read at each attempt, never in the log."},
	{Name: "hooks", Shape: document.Object, Keys: hooks, Help: "Argument lists that run on the host around the switch."},
	{Name: "ready", Shape: document.Object, Keys: ready, Help: "When the service counts as healthy."},
	{Name: "confirm", Shape: document.Duration, Default: "on ssh hosts ready.within and 30s, on local hosts 0s",
		Help: "The host goes back by itself unless the switch is confirmed by then; 0s: never."},
}

var hooks = []document.Key{
	{Name: "before", Shape: document.Scalars, Help: "Runs before the switch."},
	{Name: "after", Shape: document.Scalars, Help: "Runs after the service is ready."},
}

var ready = []document.Key{
	{Name: "for", Shape: document.Duration, Default: "5s", Help: "Healthy that long without a restart."},
	{Name: "within", Shape: document.Duration, Default: "60s", Help: "At the latest by then."},
	{Name: "checks", Shape: document.Objects, Keys: check, Help: "Checks, as of test, that must pass by then as well, or the host goes back."},
}

var step = []document.Key{
	{Name: "name", Shape: document.Text, Required: true, Help: "replicate, deploy, test, or the own step's name; its event is host-NAME."},
	{Name: "run", Shape: document.Scalars,
		Help: "Argument list, run in the release on the host: exit 0 done, 75 throttle, 78 fatal, other retry."},
	{Name: "env", Shape: document.Flag, Default: "true", Help: "Whether an own step gets env and secrets of the service."},
	{Name: "once", Shape: document.Flag, Default: "false",
		Help: "Whether an own step runs on one host of its stage, the first in list order that takes part, and counts for all."},
	{Name: "request", Shape: document.Object, Later: true, Help: "A request from Waybill."},
	{Name: "handler", Shape: document.Object, Later: true, Help: "A handler of server.yaml."},
	{Name: "retry", Shape: document.Object, Keys: retry, Help: "Overrides of this step."},
}

var check = []document.Key{
	{Name: "http", Shape: document.Text, Help: "URL, reached from the host itself."},
	{Name: "status", Shape: document.Scalars, Default: "[200]", Help: "Statuses that pass."},
	{Name: "body", Shape: document.Text, Help: "Text that the body contains."},
	{Name: "headers", Shape: document.ScalarMap, Help: "Header fields of the request, such as Host for a service that refuses other names."},
	{Name: "tcp", Shape: document.Text, Help: "ADDRESS:PORT that accepts a connection."},
	{Name: "run", Shape: document.Scalars,
		Help: "Argument list, run in the release on the host: exit 0 passes, 75 tries again while the attempt lasts, 78 fails " +
			"for good, other fails."},
	{Name: "timeout", Shape: document.Duration, Default: "5s, of a check of ready 2s, of run in a test none",
		Help: "Of one try. The attempt's limits bound it too."},
}

var retry = []document.Key{
	{Name: "backoff", Shape: document.Object, Keys: backoff, Help: "How often, and how long between."},
	{Name: "attemptTimeout", Shape: document.Duration, Default: "10m (builds: 6h)", Help: "Of one attempt."},
	{Name: "deadline", Shape: document.Duration, Default: "30m (builds: 7d)", Help: "Of all attempts together."},
}

var backoff = []document.Key{
	{Name: "retries", Shape: document.Number, Default: "2 (builds: 0)", Help: "Attempts after the first."},
	{Name: "initial", Shape: document.Duration, Default: "2s", Help: "Before the first retry."},
	{Name: "factor", Shape: document.Number, Default: "2", Help: "Of each further one, at least 1."},
	{Name: "max", Shape: document.Duration, Default: "2m", Help: "The longest."},
}

var stage = []document.Key{
	{Name: "name", Shape: document.Text, Required: true, Help: "Name of the stage."},
	{Name: "was", Shape: document.Texts, Help: "Names that the stage had: what the log has under these is its own too."},
	{Name: "after", Shape: document.Texts, Default: "the stage above", Help: "Stages that must finish first; []: none; several: a join."},
	{Name: "build", Shape: document.Text | document.Object, Keys: build, Help: "The build file, or external: artifacts come through the API."},
	{Name: "artifacts", Shape: document.TextMap, Help: "Label, usually an architecture, to name or glob in the build; all are required."},
	{Name: "hosts", Shape: document.Anything, Help: "Short for one group named all."},
	{Name: "groups", Shape: document.Objects, Keys: group, Help: "Groups of hosts, side by side."},
	{Name: "service", Shape: document.Object, Keys: service, Help: "Overrides of single fields."},
	{Name: "vars", Shape: document.ScalarMap, Help: "Overrides."},
	{Name: "steps", Shape: document.Anything, Help: "Chain of this stage's hosts."},
	{Name: "test", Shape: document.Objects, Keys: check, Help: "Checks of this stage's hosts, instead of the pipeline's."},
	{Name: "retry", Shape: document.Object, Keys: retry, Help: "Overrides of this stage."},
	{Name: "queue", Shape: document.Text | document.Flag, Values: queues, Default: "fifo",
		Help: "Which deployment enters next: fifo: each one, oldest first; latest: the newest, superseding older ones; false: " +
			"any number at once."},
	{Name: "onFailure", Shape: document.Text, Values: onFailure, Default: "release",
		Help: "release: a newer revision may enter once drained; hold: none enters until it is retried or canceled; rollback: " +
			"the revision before comes back."},
	{Name: "gates", Shape: document.Objects, Keys: gate,
		Help: "Named checks of the whole stage, before its first host or after its last one; a stage of its own may have them too."},
	{Name: "bake", Shape: document.Object, Keys: bake,
		Help: "A time after the last group in which the tests of the hosts repeat; one that fails, or an alarm, fails the stage."},
	{Name: "windows", Shape: document.Objects, Keys: window,
		Help: "When the stage, its groups and its hosts may start: while no Deny is open and, where there is an Allow, one is."},
	{Name: "approval", Shape: document.Object, Keys: approval, Help: "Who must agree before the stage starts in a deployment."},
	{Name: "environment", Shape: document.Object, Keys: environment,
		Help: "An application of Kubernetes that the role promoter brings the revision to."},
}

var build = []document.Key{
	{Name: "file", Shape: document.Text, Default: ".wharf-ci.yml", Help: "The build file, from the folder of waybill.yaml."},
	{Name: "stage", Shape: document.Text, Help: "Only this stage of it."},
	{Name: "inputs", Shape: document.Object, Later: true, Help: "Inputs of the build."},
}

var window = []document.Key{
	{Name: "kind", Shape: document.Text, Values: []string{string(cron.Allow), string(cron.Deny)}, Required: true,
		Help: "Allow: starting is allowed while it is open; Deny: it is not."},
	{Name: "schedule", Shape: document.Text, Required: true, Help: "When it opens: the five fields of cron, or a word such as @daily."},
	{Name: "duration", Shape: document.Duration, Required: true, Help: "How long it stays open, from 1m to 366d."},
	{Name: "timezone", Shape: document.Text, Default: "UTC", Help: "Time zone of the schedule, such as Europe/Stockholm."},
	{Name: "reason", Shape: document.Text, Help: "Why, for people: a Deny shows it."},
}

var approval = []document.Key{
	{Name: "count", Shape: document.Number, Default: "1", Help: "How many people must approve; each counts once."},
	{Name: "by", Shape: document.Texts, Default: "everybody with the scope approve", Help: "Who may approve, by the names of their tokens."},
	{Name: "self", Shape: document.Flag, Default: "false", Help: "true: the one who registered the revision may approve it."},
}

var group = []document.Key{
	{Name: "name", Shape: document.Text, Required: true, Help: "Name of the group."},
	{Name: "was", Shape: document.Texts, Help: "Names that the group had in its stage: what the log has under these is its own too."},
	{Name: "hosts", Shape: document.Anything, Help: "Its hosts, in the order in which they start."},
	{Name: "maxParallel", Shape: document.Scalar, Default: "25%",
		Help: "Hosts in flight over all deployments: count or percent, rounded up, at least 1."},
	{Name: "maxFailed", Shape: document.Scalar, Default: "0", Help: "More than this fails the group: count or percent, rounded down."},
	{Name: "service", Shape: document.Object, Keys: service, Help: "Overrides of single fields."},
	{Name: "vars", Shape: document.ScalarMap, Help: "Overrides."},
	{Name: "waves", Shape: document.Object, Keys: waves, Help: "Divides the hosts into waves, which run one after another, in list order."},
	{Name: "joining", Shape: document.Text, Values: []string{"next", "catch-up"}, Default: "next",
		Help: "next: a host that joins a finished group waits for the next deployment; catch-up: it gets one of its own."},
}

var waves = []document.Key{
	{Name: "sizes", Shape: document.Scalars, Required: true,
		Help: "Hosts in each wave: count or percent of the group, rounded up; the last size repeats until all hosts are dealt."},
	{Name: "bake", Shape: document.Duration, Help: "A time after each wave in which the tests of the hosts repeat, every minute."},
}

var gate = []document.Key{
	{Name: "name", Shape: document.Text, Required: true, Help: "Name of the gate, unique in its stage; its event is gate-passed/NAME."},
	{Name: "when", Shape: document.Text, Values: []string{"Before", "After"}, Default: "After",
		Help: "Before: the first host waits for it; After: it follows the last host, and the bake waits for it."},
	{Name: "http", Shape: document.Object, Keys: gateRequest, Help: "A request that Waybill sends."},
	{Name: "job", Shape: document.Object, Keys: gateJob,
		Help: "A program that runs on the conductor's machine, in the files of the revision."},
	{Name: "cel", Shape: document.Text, Help: "An expression over targets, the live objects of a stage with an environment; may use, in quotes, the " +
		"stage's variables, ${stage} and ${revision}."},
	{Name: "handler", Shape: document.Object, Keys: gateHandler, Help: "An action of a handler of server.yaml."},
	{Name: "interval", Shape: document.Duration, Default: "30s", Help: "Between two questions."},
	{Name: "timeout", Shape: document.Duration, Default: "10m", Help: "Until then it must have passed."},
	{Name: "successes", Shape: document.Number, Later: true, Help: "Answers in a row that pass it."},
	{Name: "failures", Shape: document.Number, Default: "3", Help: "Other answers that fail it; no answer at all is not one."},
}

var gateRequest = []document.Key{
	{Name: "url", Shape: document.Text, Required: true, Help: "Where to ask; may use the stage's variables, ${stage} and ${revision}."},
	{Name: "status", Shape: document.Scalars, Default: "[200]", Help: "Statuses that pass."},
	{Name: "body", Shape: document.Text, Help: "Text that the body contains."},
	{Name: "allowNetworks", Shape: document.Texts, Help: "Networks (CIDR) that may be asked although they are not on the public internet."},
}

var gateJob = []document.Key{
	{Name: "run", Shape: document.Scalars, Required: true,
		Help: "Argument list, which may use the stage's variables, ${stage} and ${revision}: exit 0 passes, 75 asks again " +
			"while timeout lasts, 78 fails for good, other fails."},
}

var gateHandler = []document.Key{
	{Name: "name", Shape: document.Text, Required: true, Help: "Name of the handler."},
	{Name: "parameters", Shape: document.Object, Help: "Its parameters; their texts may use the stage's variables, ${stage} and ${revision}."},
}

var bake = []document.Key{
	{Name: "for", Shape: document.Duration, Required: true, Help: "How long the tests must go well."},
	{Name: "every", Shape: document.Duration, Default: "1m", Help: "Between two rounds of tests, from 1s to 1h."},
}

var host = []document.Key{
	{Name: "name", Shape: document.Text, Default: "from the URL", Help: "Name of the host, unique in its group."},
	{Name: "url", Shape: document.Text, Required: true,
		Help: "ssh://[USER@]HOST[:PORT], local://NAME (hosts/NAME in the home) or local:///DIR."},
	{Name: "arch", Shape: document.Text, Help: "Label of the artifact that it gets; default: the only one."},
	{Name: "root", Shape: document.Text,
		Default: "waybill in the account's home, /opt with sudo, or the local host's folder", Help: "Folder of the services on the host."},
	{Name: "hostKey", Shape: document.Text, Help: "Fingerprint of an ssh host's key, SHA256:…; default: one of ssh.knownHosts."},
	{Name: "service", Shape: document.Object, Keys: service, Help: "Overrides of single fields."},
	{Name: "vars", Shape: document.ScalarMap, Help: "Overrides."},
}

var batch = []document.Key{
	{Name: "name", Shape: document.Text, Required: true, Help: "Name of the batch."},
	{Name: "stages", Shape: document.Texts, Required: true, Help: "Its stages, connected, with one entry and one exit."},
	{Name: "queue", Shape: document.Text | document.Flag, Values: queues, Default: "fifo", Help: "As of a stage."},
}
