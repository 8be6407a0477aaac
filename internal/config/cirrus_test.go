package config

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCirrusHandlersAreRead(t *testing.T) {
	t.Parallel()
	c, problems := Check("server.yaml", []byte(`
handlers:
  machines: {type: cirrus, cirrusConf: {region: eu-north-1}}
  queue:
    type: Cirrus
    cirrusConf: {profile: flows, endpoint: "http://127.0.0.1:4566", sqsUrl: "http://127.0.0.1:4566/1/process"}
  observed:
    type: cirrus
    cirrusConf: {sqsUrl: "https://sqs.eu-north-1.amazonaws.com/1/process", eventsQueueUrl: "https://sqs.eu-north-1.amazonaws.com/1/events"}
workflows:
  reproject: {handler: machines, cirrusOpts: {sfnArn: "arn:aws:states:eu-north-1:1:stateMachine:reproject"}}
  mirror: {handler: queue}
  direct: {handler: queue, cirrusOpts: {sfnArn: "arn:aws:states:eu-north-1:1:stateMachine:direct:live"}}
`))
	if problems.Err() != nil {
		t.Fatal(problems)
	}
	want := "server.yaml:6:77: warning: handlers.queue.cirrusConf: without eventsQueueUrl Waybill does not learn how the work ends: " +
		"an action is SUCCESSFUL as soon as the queue has taken it"
	if diff := cmp.Diff(want, problems.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Cirrus{Profile: "flows", Endpoint: "http://127.0.0.1:4566",
		SqsURL: "http://127.0.0.1:4566/1/process"}, c.Handlers["queue"].Cirrus); diff != "" {
		t.Errorf("queue (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"mirror": "", "direct": "arn:aws:states:eu-north-1:1:stateMachine:direct:live"},
		c.CirrusProcesses("queue")); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	job, err := c.Processes["mirror"].Prepare(json.RawMessage(`{"payload": {"features": []}}`))
	if err != nil || job.Handler != "queue" || job.Name != "mirror" || job.Lane != "queue" {
		t.Errorf("prepared %+v, %v", job, err)
	}
	for parameters, good := range map[string]bool{
		`{"payload": {}, "sfnArn": "arn:aws:states:eu-north-1:1:stateMachine:x"}`: true,
		`{"payload": {}}`: false, `{"payload": {}, "sfnArn": "x"}`: false,
		`{"payload": 1, "sfnArn": "arn:aws:states:eu-north-1:1:stateMachine:x"}`: false,
	} {
		if _, err := c.Handlers["machines"].Prepare(json.RawMessage(parameters)); (err == nil) != good {
			t.Errorf("machines: %s: %v", parameters, err)
		}
	}
	if _, err := c.Handlers["queue"].Prepare(json.RawMessage(`{"payload": {}}`)); err != nil {
		t.Errorf("queue: %v", err)
	}
}

func TestFaultsOfCirrusAreNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"handlers: {a: {type: cirrus, cirrusConf: {sqsUrl: process, eventsQueueUrl: 'https://x/1/e'}}}\n":      `server.yaml:1:51: handlers.a.cirrusConf.sqsUrl: want a URL`,
		"handlers: {a: {type: cirrus, cirrusConf: {sqlUrl: x}}}\n":                                             `server.yaml:1:43: unknown key "sqlUrl" in handlers.a.cirrusConf (did you mean "sqsUrl"?)`,
		"handlers: {a: {type: cirrus}}\nworkflows: {m: {handler: a}}\n":                                        `server.yaml:2:13: workflows.m: want cirrusOpts.sfnArn: the handler has no sqsUrl`,
		"handlers: {a: {type: cirrus}}\nworkflows: {m: {handler: a, cirrusOpts: {sfnArn: 'arn:aws:sns:x'}}}\n": `server.yaml:2:50: workflows.m.cirrusOpts.sfnArn: want the ARN of a state machine`,
		"handlers: {a: {type: cirrus, cirrusConf: {eventsQueueUrl: 'https://x/1/e'}}}\n":                       `warning: handlers.a.cirrusConf: without sqsUrl nothing is sent`,
	} {
		if _, problems := Check("server.yaml", []byte(text)); !strings.Contains(problems.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, problems, want)
		}
	}
}
