package flow

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// Target is a sink as a flow specifies it: an object, with the name of one of its addresses and a path, or a URI.
type Target struct {
	Ref     Ref
	Address string
	Path    string
	URI     string
}

// DefaultBroker is the name of the Broker of flows that name none.
const DefaultBroker = "default"

// TargetOf returns the sink of a flow in a namespace.
func TargetOf(sink v1alpha1.Sink, namespace string) Target {
	switch {
	case sink.URI != "":
		return Target{URI: sink.URI}
	case sink.Ref != nil:
		return Target{Ref: RefOf(sink.Ref.Reference, namespace), Address: sink.Ref.Address, Path: sink.Ref.Path}
	}
	name := DefaultBroker
	if sink.Broker != nil && sink.Broker.Name != "" {
		name = sink.Broker.Name
	}
	return Target{Ref: Ref{schema.GroupVersionKind{Group: GroupEventing, Version: "v1", Kind: "Broker"}, namespace, name}}
}

// RefOf returns the object that a reference in a namespace names. A malformed API version is that of no installed kind.
func RefOf(r v1alpha1.Reference, namespace string) Ref {
	version, err := schema.ParseGroupVersion(r.APIVersion)
	if err != nil {
		version = schema.GroupVersion{Group: r.APIVersion}
	}
	if r.Namespace != "" {
		namespace = r.Namespace
	}
	return Ref{version.WithKind(r.Kind), namespace, r.Name}
}

// ChannelOf returns the Channel that a reference names, by default in the namespace of source.ref, which namespace is.
func ChannelOf(r v1alpha1.ChannelReference, namespace string) Ref {
	return RefOf(v1alpha1.Reference{APIVersion: GroupMessaging + "/v1", Kind: "Channel", Name: r.Name, Namespace: r.Namespace}, namespace)
}

// Link returns the value of a Subscription's link label: a hash of its channel and its sink, of 16 hexadecimal digits. Versions of kinds do not
// count; everything else does, so different subscribers never share a link.
func Link(channel Ref, sink Target) string {
	fields := []string{channel.Group, channel.Kind, channel.Namespace, channel.Name}
	if sink.URI != "" {
		fields = append(fields, "uri", sink.URI)
	} else {
		fields = append(fields, "ref", sink.Ref.Group, sink.Ref.Kind, sink.Ref.Namespace, sink.Ref.Name, sink.Address, sink.Path)
	}
	var text strings.Builder
	for _, field := range fields {
		fmt.Fprintf(&text, "%d:%s,", len(field), field) // the lengths keep fields apart
	}
	sum := sha256.Sum256([]byte(text.String()))
	return hex.EncodeToString(sum[:8])
}

// SubscriptionName returns the name of a new Subscription of a link.
func SubscriptionName(link string) string { return "ef-" + link }
