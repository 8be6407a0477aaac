package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	strict "sigs.k8s.io/json"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// CheckSpec returns the faults of an EventFlow's spec, as the schema of the kind and the controller would find them. open reports
// that a top-level field has parts that are filled in later: only the names and the kinds of the other parts are checked then.
func CheckSpec(spec map[string]any, open func(field string) bool) (faults []string) {
	text, err := json.Marshal(spec)
	if err != nil {
		return []string{err.Error()}
	}
	var decoded v1alpha1.EventFlowSpec
	unknown, err := strict.UnmarshalStrict(text, &decoded)
	for _, fault := range append(unknown, err) {
		if fault != nil {
			faults = append(faults, decodingFault(fault))
		}
	}
	if faults != nil {
		return faults
	}
	c := &specChecker{}
	c.filled("", spec)
	if !open("source") {
		c.source(decoded.Source)
	}
	if _, given := spec["sink"]; given && !open("sink") {
		c.sink(decoded.Sink)
	}
	if decoded.Delivery != nil && !open("delivery") {
		c.delivery(decoded.Delivery)
	}
	if !open("meshPolicy") {
		c.choice("meshPolicy", string(decoded.MeshPolicy), string(v1alpha1.NoMeshPolicy), string(v1alpha1.PermissiveMetrics))
		elsewhere := decoded.Sink.Ref != nil || decoded.Sink.URI != ""
		c.require(decoded.MeshPolicy != v1alpha1.PermissiveMetrics || !elsewhere, "meshPolicy: set it only with sink.broker")
	}
	return c.faults
}

// decodingFault returns the text of an error of the decoder, without the names of Go's types.
func decodingFault(err error) string {
	mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	want := "an object"
	switch mismatch.Type.Kind() {
	case reflect.String:
		want = "a text"
	case reflect.Bool:
		want = "a boolean"
	case reflect.Int32, reflect.Int64:
		want = "a whole number"
	}
	return fmt.Sprintf("%s: want %s, found %s", mismatch.Field, want, mismatch.Value)
}

// specChecker collects the broken rules of a spec.
type specChecker struct{ faults []string }

func (c *specChecker) require(holds bool, format string, args ...any) {
	if !holds {
		c.faults = append(c.faults, fmt.Sprintf(format, args...))
	}
}

// filled requires fields that are there to have a value: the schema accepts neither null nor an empty text.
func (c *specChecker) filled(path string, value any) {
	if value == nil || value == "" {
		c.require(false, "%s: want a value, or leave it out", path)
	}
	fields, _ := value.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		c.filled(strings.TrimPrefix(path+"."+name, "."), fields[name])
	}
}

// most requires a text to be no longer than a bound.
func (c *specChecker) most(field, text string, bytes int) {
	c.require(len(text) <= bytes, "%s: want at most %d bytes", field, bytes)
}

// choice requires a text to be absent, or one of the accepted ones.
func (c *specChecker) choice(field, text string, accepted ...string) {
	c.require(text == "" || slices.Contains(accepted, text), "%s: want %s", field, strings.Join(accepted, " or "))
}

// The forms of texts in a spec; those of the schema.
var (
	subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	label     = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	iso8601   = regexp.MustCompile(`^P([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+([.][0-9]+)?S)?)?$`)
)

// Bounds of the schema, in bytes and in attempts.
const (
	mostName, mostLabel, mostDuration, mostURI = 253, 63, 64, 2048
	mostAPIVersion                             = 317
	mostRetries                                = 1000
)

// name requires a DNS subdomain.
func (c *specChecker) name(field, text string, most int) {
	c.require(len(text) <= most && subdomain.MatchString(text), "%s: want a name of lower case letters, digits, - and ., at most %d", field, most)
}

func (c *specChecker) namespace(field, text string) {
	c.require(text == "" || len(text) <= mostLabel && label.MatchString(text), "%s: want a name of lower case letters, digits and -", field)
}

func (c *specChecker) duration(field, text string) {
	sound := len(text) <= mostDuration && iso8601.MatchString(text) && !strings.HasSuffix(text, "P") && !strings.HasSuffix(text, "T")
	c.require(text == "" || sound, "%s: want an ISO 8601 duration, such as PT0.5S", field)
}

func (c *specChecker) uri(field, text string) {
	if err := CheckURI(text); err != nil {
		c.require(false, "%s: %s", field, err)
	}
	c.most(field, text, mostURI)
}

func (c *specChecker) ref(field string, ref v1alpha1.Reference) {
	c.require(ref.APIVersion != "" && ref.Kind != "", "%s: apiVersion and kind are needed", field)
	c.most(field+".apiVersion", ref.APIVersion, mostAPIVersion)
	c.most(field+".kind", ref.Kind, mostLabel)
	c.name(field+".name", ref.Name, mostName)
	c.namespace(field+".namespace", ref.Namespace)
}

func (c *specChecker) source(source v1alpha1.Source) {
	c.require((source.Application != "") != (source.Ref != nil), "source: set exactly one of application and ref")
	c.require(source.ChannelRef == nil || source.Ref != nil, "source.channelRef: set it only with source.ref")
	if source.Application != "" {
		c.name("source.application", source.Application, mostLabel)
	}
	if source.Ref != nil {
		c.ref("source.ref", *source.Ref)
	}
	if channel := source.ChannelRef; channel != nil {
		c.name("source.channelRef.name", channel.Name, mostName)
		c.namespace("source.channelRef.namespace", channel.Namespace)
	}
}

func (c *specChecker) sink(sink v1alpha1.Sink) {
	set := 0
	if broker := sink.Broker; broker != nil {
		set++
		if broker.Name != "" {
			c.name("sink.broker.name", broker.Name, mostName)
		}
		c.choice("sink.broker.provisioning", string(broker.Provisioning), string(v1alpha1.Managed), string(v1alpha1.Existing))
		c.choice("sink.broker.deletionPolicy", string(broker.DeletionPolicy), string(v1alpha1.WhenUnused), string(v1alpha1.Retain))
		c.most("sink.broker.class", broker.Class, mostName)
		if broker.Config != nil {
			c.ref("sink.broker.config", *broker.Config)
		}
	}
	if ref := sink.Ref; ref != nil {
		set++
		c.ref("sink.ref", ref.Reference)
		c.require(ref.Path == "" || ref.APIVersion == "v1" && ref.Kind == "Service", "sink.ref.path: set it only for a Service of apiVersion v1")
		c.require(ref.Path == "" || strings.HasPrefix(ref.Path, "/") && !strings.HasPrefix(ref.Path, "//"), "sink.ref.path: begin it with one /")
		c.most("sink.ref.path", ref.Path, mostURI)
		c.most("sink.ref.address", ref.Address, mostName)
	}
	if sink.URI != "" {
		set++
		c.uri("sink.uri", sink.URI)
	}
	c.require(set == 1, "sink: set exactly one of broker, ref and uri, or leave out sink for the Broker default")
}

func (c *specChecker) delivery(delivery *v1alpha1.Delivery) {
	if retry := delivery.Retry; retry != nil {
		c.require(*retry >= 0 && *retry <= mostRetries, "delivery.retry: want 0 to %d", mostRetries)
	}
	c.choice("delivery.backoffPolicy", string(delivery.BackoffPolicy), "linear", "exponential")
	c.require((delivery.BackoffPolicy == "") == (delivery.BackoffDelay == ""), "delivery: set backoffPolicy and backoffDelay together")
	c.duration("delivery.backoffDelay", delivery.BackoffDelay)
	c.duration("delivery.timeout", delivery.Timeout)
	c.require(delivery.Timeout == "" || strings.ContainsAny(delivery.Timeout, "123456789"), "delivery.timeout: want more than zero")
	if dead := delivery.DeadLetterSink; dead != nil {
		c.require((dead.Ref != nil) != (dead.URI != ""), "delivery.deadLetterSink: set exactly one of ref and uri")
		if dead.Ref != nil {
			c.ref("delivery.deadLetterSink.ref", *dead.Ref)
		}
		if dead.URI != "" {
			c.uri("delivery.deadLetterSink.uri", dead.URI)
		}
	}
}

// Fixed returns the parts of a spec that no update changes, with their defaults: the source, and the sink but for
// broker.deletionPolicy. Flows that differ in these are different flows.
func Fixed(spec map[string]any) map[string]any {
	sink, _ := spec["sink"].(map[string]any)
	fixed := map[string]any{}
	for name, value := range sink {
		fixed[name] = value
	}
	if broker, ok := fixed["broker"].(map[string]any); ok || len(fixed) == 0 {
		fixed["broker"] = withDefaults(broker)
	}
	return map[string]any{"source": spec["source"], "sink": fixed}
}

// withDefaults returns the fields of a Broker that no update changes.
func withDefaults(broker map[string]any) map[string]any {
	fixed := map[string]any{"name": DefaultBroker, "provisioning": string(v1alpha1.Managed)}
	for name, value := range broker {
		if name != "deletionPolicy" {
			fixed[name] = value
		}
	}
	return fixed
}

// IsNamespace reports whether a text may be the name of a namespace.
func IsNamespace(text string) bool { return len(text) <= mostLabel && label.MatchString(text) }
