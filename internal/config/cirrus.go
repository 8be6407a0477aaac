package config

import (
	"net/url"
	"regexp"

	"github.com/waybill-dev/waybill/internal/document"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Cirrus configures the destination of a handler's work, and the source of its events.
type Cirrus struct {
	Region         string // "": as Amazon's own tools find it
	Endpoint       string // URL of a server that replaces Amazon's
	Profile        string // profile in the shared configuration and credentials files
	SqsURL         string // Cirrus's process queue; "": state machines only
	EventsQueueURL string // receives what Cirrus publishes to its workflow-event topic; "": an action ends when the queue has taken it
}

// machineARN matches the name of a state machine; a version or an alias may follow.
const machineARN = `^arn:[^:]+:states:[^:]+:[^:]+:stateMachine:[^:]+(:[^:]+)?$`

var machinePattern = regexp.MustCompile(machineARN)

// cirrusKeys returns the keys of AWS settings.
func cirrusKeys() []document.Key {
	return []document.Key{
		{Name: "region", Shape: document.Text, Help: "such as eu-north-1; empty: AWS_REGION, or the profile's"},
		{Name: "endpoint", Shape: document.Text, Help: "URL of a server that replaces Amazon's"},
		{Name: "profile", Shape: document.Text, Help: "of the files of AWS: whose credentials; empty: as Amazon's own tools find them"},
		{Name: "sqsUrl", Shape: document.Text, Help: "URL of Cirrus's process queue, for work that names no state machine"},
		{Name: "eventsQueueUrl", Shape: document.Text, Help: "URL of a queue of Waybill's own that Cirrus's workflow-event topic fills"},
	}
}

// cirrus reads where work goes.
func (r *handlerReader) cirrus(n *document.Node) *Cirrus {
	c := &Cirrus{Region: n.Str("region"), Endpoint: n.Str("endpoint"), Profile: n.Str("profile"),
		SqsURL: n.Str("sqsUrl"), EventsQueueURL: n.Str("eventsQueueUrl")}
	for _, key := range []string{"endpoint", "sqsUrl", "eventsQueueUrl"} {
		if v := n.Get(key); v != nil && v.Text != "" && !isURL(v.Text) {
			r.Add(v, "value-invalid", r.path+".cirrusConf."+key,
				"want a URL such as https://sqs.eu-north-1.amazonaws.com/123456789012/process, found %q", v.Text)
		}
	}
	switch {
	case c.SqsURL != "" && c.EventsQueueURL == "":
		r.warn(n.Get("sqsUrl"), "cirrus-unobserved", r.path+".cirrusConf", "without eventsQueueUrl Waybill does not learn how the work ends: "+
			"an action is SUCCESSFUL as soon as the queue has taken it")
	case c.SqsURL == "" && c.EventsQueueURL != "":
		r.warn(n.Get("eventsQueueUrl"), "cirrus-unused", r.path+".cirrusConf", "without sqsUrl nothing is sent that an event could be of")
	}
	return c
}

func isURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
}

// warn reports remarks and blocks nothing.
func (r *reader) warn(n *document.Node, code, path, text string) {
	r.Problems.Add(fault.Problem{Position: n.At, Code: code, Warning: true, Scope: path, Text: text})
}

// cirrusParameters returns the parameters of a cirrus handler's actions. Without a queue it must
// name a state machine.
func cirrusParameters(c *Cirrus) Parameters {
	return Parameters{
		fixed("payload", false, map[string]any{"type": "object"}),
		fixed("sfnArn", c.SqsURL != "", map[string]any{"type": "string", "pattern": machineARN}),
	}
}

// cirrusOptions reads the work of Cirrus for a process.
func (r *workflowReader) cirrusOptions(n *document.Node, h *Cirrus) *CirrusOptions {
	o := &CirrusOptions{SfnArn: n.Str("sfnArn")}
	switch {
	case o.SfnArn == "" && h.SqsURL == "":
		r.Add(&document.Node{At: r.field.At}, "field-missing", r.path, "want cirrusOpts.sfnArn: the handler has no sqsUrl")
	case o.SfnArn != "" && !machinePattern.MatchString(o.SfnArn):
		r.Add(n.Get("sfnArn"), "value-invalid", r.path+".cirrusOpts.sfnArn", "want the ARN of a state machine, such as "+
			"arn:aws:states:eu-north-1:123456789012:stateMachine:reproject, found %q", o.SfnArn)
	}
	return o
}

// CirrusProcesses returns the state machine of each process of a handler, by the process's id; "":
// the handler's queue.
func (c Config) CirrusProcesses(handler string) map[string]string {
	of := map[string]string{}
	for name, w := range c.Processes {
		if w.handler.Name == handler && w.Cirrus != nil {
			of[name] = w.Cirrus.SfnArn
		}
	}
	return of
}
