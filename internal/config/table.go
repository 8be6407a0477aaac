package config

import (
	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// keys returns the table of the file. Keys that start with x- are free for anchors.
func keys() []document.Key {
	return []document.Key{
		{Name: "templateEnv", Shape: document.Texts, Help: "the environment names that env in templates may read"},
		{Name: "ledger", Shape: document.Object, Help: "where the log is", Keys: []document.Key{
			{Name: "url", Shape: document.Text, Help: "postgres://… or a file"},
			{Name: "listenUrl", Shape: document.Text, Help: "a direct connection, when url is a transaction pooler's"},
			{Name: "partition", Shape: document.Text, Values: []string{"day", "week", "month"}, Default: "week", Help: "PostgreSQL only"},
			{Name: "logRetention", Shape: document.Scalar, Default: "90d",
				Help: "how long logs, artifacts and test results of builds in the database are kept once the builds ended, or " +
					"never: they are never deleted"},
			{Name: "retention", Shape: document.Scalar, Default: "90d",
				Help: "how long actions are kept once they ended, or never: they are never deleted"},
			{Name: "heartbeat", Shape: document.Scalar, Default: "5s",
				Help: "time between heartbeats of an instance; its lease is three heartbeats"},
		}},
		{Name: "blob", Shape: document.Object, Help: "where snapshots and artifacts are kept", Keys: []document.Key{
			{Name: "url", Shape: document.Text, Help: "file:DIR, a folder or s3://BUCKET/PREFIX?endpoint=URL&region=NAME"},
		}},
		{Name: "server", Shape: document.Object, Help: "the API", Keys: []document.Key{
			{Name: "listen", Shape: document.Text, Default: "127.0.0.1:7070", Help: "host:port"},
			{Name: "url", Shape: document.Text,
				Help: "where clients reach it when that is not where it listens, as behind a proxy, such as https://waybill.example.org"},
			{Name: "largestUpload", Shape: document.Scalar, Default: "1GiB", Help: "a snapshot or an artifact of more bytes is refused"},
		}},
		{Name: "groups", Shape: document.Object, Help: "people by the name of their group, for approval.by in waybill.yaml"},
		{Name: "conductors", Shape: document.Object, Help: "what one process serves, by name"},
		{Name: "defaults", Shape: document.Object, Help: "for every handler, which may override them", Keys: policyKeys()},
		{Name: "handlers", Shape: document.Object, Help: "what actions can be done, by name"},
		{Name: "workflows", Shape: document.Object, Help: "the processes that jobs are made of, by id"},
		{Name: "callbacks", Shape: document.Object, Help: "parts of callbacks that workflows bring in by anchors"},
		{Name: "schedules", Shape: document.Object, Help: "what is done again and again, by name"},
		{Name: "triggers", Shape: document.Object, Help: "what is done for events, by name"},
		{Name: "caboose", Shape: document.Object, Help: "how workflows are looked after", Keys: []document.Key{
			{Name: "workers", Shape: document.Number, Default: "4", Help: "workflows at a time, of each handler"},
			{Name: "resync", Shape: document.Scalar, Default: "10m", Help: "between looks at all workflows"},
		}},
		{Name: "promoter", Shape: document.Object, Help: "how revisions are promoted through Kubernetes pipelines", Keys: promoterKeys()},
		{Name: "flow", Shape: document.Object, Help: "the cluster whose EventFlows are kept ready", Keys: flowKeys()},
		{Name: "broker", Shape: document.Object, Help: "the service broker: the Open Service Broker API over handlers", Keys: brokerKeys()},
		{Name: "builder", Shape: document.Object, Help: "how builds run in workers", Keys: builderKeys()},
		{Name: "builds", Shape: document.Object, Help: "what can be built without a deployment", Keys: buildsKeys()},
	}
}

// policyKeys returns the keys of retries and deadlines.
func policyKeys() []document.Key {
	return []document.Key{
		{Name: "backoff", Shape: document.Object, Help: "between attempts", Keys: []document.Key{
			{Name: "retries", Shape: document.Number, Default: "5", Help: "after the first attempt"},
			{Name: "initial", Shape: document.Scalar, Default: "5s", Help: "before the first retry"},
			{Name: "seconds", Shape: document.Scalar, Help: "the same as initial"},
			{Name: "factor", Shape: document.Number, Default: "2", Help: "of each further one; 1: constant"},
			{Name: "max", Shape: document.Scalar, Default: "5m", Help: "the longest"},
			{Name: "jitter", Shape: document.Number, Default: "0.1", Help: "± this part of it"},
			{Name: "schedule", Shape: document.Scalars, Help: "instead of initial, factor and max: each wait, the last one again and again"},
		}},
		{Name: "attemptTimeout", Shape: document.Scalar, Default: "30s", Help: "of one attempt"},
		{Name: "deadline", Shape: document.Scalar, Default: "7d", Help: "of the whole action, or never"},
	}
}

// handlerKeys returns the keys of one handler, by its type.
func handlerKeys(kind string) []document.Key {
	keys := append([]document.Key{
		{Name: "type", Shape: document.Text, Required: true},
		{Name: "delivery", Shape: document.Text, Values: []string{"at-least-once", "at-most-once"}, Default: "at-least-once"},
	}, policyKeys()...)
	keys = append(keys, limitKeys(kind)...)
	switch kind {
	case TypeNoop:
		return keys
	case TypeCirrus:
		return append(keys, document.Key{Name: "cirrusConf", Shape: document.Object, Help: "where work goes on AWS", Keys: cirrusKeys()})
	case TypeArgo:
		return append(keys, document.Key{Name: "argoConf", Shape: document.Object, Help: "where workflows are made", Keys: argoKeys()},
			document.Key{Name: "parameters", Shape: document.Object,
				Help: "in mode resume: a JSON Schema per output of the nodes; one without default is required"})
	}
	keys = append(keys,
		document.Key{Name: "parameters", Shape: document.Object, Help: "a JSON Schema per name; one without default is required"},
		document.Key{Name: "lane", Shape: document.Text, Help: "which actions share order and limits; default: the URL's host"})
	if kind == TypeShell {
		return append(keys, document.Key{Name: "command", Shape: document.Object, Required: true, Keys: []document.Key{
			{Name: "argv", Shape: document.Texts, Required: true, Help: "the program and its arguments"},
			{Name: "env", Shape: document.Texts, Help: "names that it gets from the environment, besides PATH and HOME"},
			{Name: "exitCodes", Shape: document.TextMap, Help: `what exit statuses mean: "3": fatal`},
		}})
	}
	return append(keys,
		document.Key{Name: "secrets", Shape: document.Objects, Keys: secretKeys()},
		document.Key{Name: "request", Shape: document.Object, Required: true, Keys: requestKeys()})
}

// workflowKeys returns the keys of one process.
func workflowKeys() []document.Key {
	return []document.Key{
		{Name: "title", Shape: document.Text, Help: "in a few words; default: the id"},
		{Name: "description", Shape: document.Text},
		{Name: "version", Shape: document.Number, Default: "1", Help: "a higher number than the cached job's forces a new one"},
		{Name: "handler", Shape: document.Text, Required: true, Help: "who does its jobs"},
		{Name: "argoOpts", Shape: document.Object, Help: "what a handler of type argo makes", Keys: []document.Key{
			{Name: "template", Shape: document.Text, Required: true, Help: "workflowtemplate/NAME or clusterworkflowtemplate/NAME"},
			{Name: "parameters", Shape: document.ScalarMap, Help: "templates of arguments besides the inputs, which are arguments too"},
			{Name: "serviceAccount", Shape: document.Text, Help: "default: the template's"},
			{Name: "labels", Shape: document.ScalarMap}, {Name: "annotations", Shape: document.ScalarMap},
			{Name: "output", Shape: document.Object, Help: "which one is the whole output; default: an object of all", Keys: []document.Key{
				{Name: "parameter", Shape: document.Text, Help: "an output parameter"},
				{Name: "artifact", Shape: document.Text, Help: "an output artifact"},
				{Name: "key", Shape: document.Text, Help: "an object of argoConf.artifacts that the workflow does not declare; a template with .id"},
			}},
		}},
		{Name: "cirrusOpts", Shape: document.Object, Help: "what a handler of type cirrus runs", Keys: []document.Key{
			{Name: "sfnArn", Shape: document.Text, Help: "a state machine; without one the handler's queue gets the payload"},
		}},
		{Name: "inputSchema", Shape: document.Object, Help: "a JSON Schema of the inputs, together"},
		{Name: "outputSchema", Shape: document.Object, Help: "a JSON Schema of the output"},
		{Name: "cache", Shape: document.Flag, Default: "false",
			Help: "a job answers for later equal payloads; with either of the next two it does anyway"},
		{Name: "cacheKeyHashIncludes", Shape: document.Texts,
			Help: "paths such as .features[].id: what makes two payloads the same; default: everything"},
		{Name: "cacheKeyHashExcludes", Shape: document.Texts, Help: "paths that do not count; the deepest rule of a place wins"},
		{Name: "sync", Shape: document.Scalar, Help: "how long a request may wait for the job's end; default: it never waits"},
		{Name: "callbacks", Shape: document.Object, Help: "what follows its jobs, by name"},
	}
}

// The modes of handlers of type argo.
const (
	modeCreate = "create"
	modeResume = "resume"
)

// argoKeys returns the keys of the cluster of workflows.
func argoKeys() []document.Key {
	return []document.Key{
		{Name: "mode", Shape: document.Text, Values: []string{modeCreate, modeResume}, Default: modeCreate,
			Help: "make workflows, or wake those that wait in a suspend node"},
		{Name: "instanceId", Shape: document.Text, Help: "of the controller that runs them; empty: the one without"},
		{Name: "finalizer", Shape: document.Flag, Default: "true", Help: "keeps a workflow until it is archived"},
		{Name: "artifacts", Shape: document.Text,
			Help: "s3://BUCKET?endpoint=URL&region=NAME: where workflows put theirs; empty: they are not read"},
		{Name: "k8sOptions", Shape: document.Object, Keys: []document.Key{
			{Name: "kubeconfig", Shape: document.Text, Help: "a file; empty: the cluster that this process runs in"},
			{Name: "configOverrides", Shape: document.Object, Keys: []document.Key{
				{Name: "currentContext", Shape: document.Text, Help: "in the file; empty: its own"},
				{Name: "context", Shape: document.Object, Keys: []document.Key{
					{Name: "namespace", Shape: document.Text, Help: "default: the context's"},
				}},
			}},
		}},
	}
}

// requestKeys returns the keys of a webhook's request.
func requestKeys() []document.Key {
	return []document.Key{
		{Name: "url", Shape: document.Text, Required: true},
		{Name: "method", Shape: document.Text, Default: "POST"},
		{Name: "headers", Shape: document.TextMap},
		{Name: "body", Shape: document.Text},
		{Name: "responses", Shape: document.Objects, Help: "what answers mean; the first that matches counts",
			Keys: append(ruleKeys(), document.Key{Name: "result", Shape: document.Text, Required: true, Values: webhook.Verdicts()})},
		{Name: "followRedirects", Shape: document.Flag, Default: "false"},
		{Name: "signing", Shape: document.Object, Keys: []document.Key{
			{Name: "secrets", Shape: document.Texts, Required: true, Help: "names under secrets, the newest first"},
		}},
		{Name: "allowNetworks", Shape: document.Texts, Help: "networks (CIDR) that the address guard lets through"},
		{Name: "proxy", Shape: document.Text,
			Help: "http://HOST:PORT, https:// or socks5://; or environment: as HTTP_PROXY, HTTPS_PROXY and NO_PROXY say"},
	}
}

// ruleKeys returns the keys of the conditions on an answer. All given conditions must match.
func ruleKeys() []document.Key {
	return []document.Key{
		{Name: "statusCode", Shape: document.Number | document.Text | document.Scalars, Help: "a number, a list of numbers, or 5xx"},
		{Name: "message", Shape: document.Text, Help: "a regular expression (RE2) that the body matches"},
		{Name: "jsonPath", Shape: document.Text, Help: "a JSONPath (RFC 9535) that selects something in the body"},
	}
}

// secretKeys returns the keys of a secret.
func secretKeys() []document.Key {
	return []document.Key{
		{Name: "name", Shape: document.Text, Required: true},
		{Name: "type", Shape: document.Text, Required: true, Values: []string{"file", "env"}},
		{Name: "path", Shape: document.Text, Help: "of a file"},
		{Name: "env", Shape: document.Text, Help: "the variable; default: the name"},
		{Name: "ttl", Shape: document.Scalar, Help: "how long it is remembered; default: for one attempt"},
	}
}
