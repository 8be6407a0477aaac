package testbed

import "testing"

// DefaultKnative gives Channels and Brokers the fields that Knative's webhook would add. Its controller ends at a Channel without them.
func (c *Cluster) DefaultKnative(t testing.TB) {
	t.Helper()
	c.Apply(t, knativeDefaults)
}

const knativeDefaults = `
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: channels}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [messaging.knative.dev], apiVersions: [v1], resources: [channels], operations: [CREATE, UPDATE]}]
  matchConditions: [{name: default, expression: "!has(object.spec) || !has(object.spec.channelTemplate)"}]
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: |
        (has(object.spec) ? [] : [JSONPatch{op: "add", path: "/spec", value: {}}]) +
        [JSONPatch{op: "add", path: "/spec/channelTemplate", value: {"apiVersion": "messaging.knative.dev/v1", "kind": "InMemoryChannel"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: channels}
spec: {policyName: channels}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: brokers}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [eventing.knative.dev], apiVersions: [v1], resources: [brokers], operations: [CREATE]}]
  matchConditions:
  - {name: default, expression: "!has(object.metadata.annotations) || !('eventing.knative.dev/broker.class' in object.metadata.annotations)"}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: |
        (has(object.metadata.annotations) ? [] : [JSONPatch{op: "add", path: "/metadata/annotations", value: {}}]) +
        (has(object.spec) ? [] : [JSONPatch{op: "add", path: "/spec", value: {}}]) +
        [JSONPatch{op: "add", path: "/metadata/annotations/" + jsonpatch.escapeKey("eventing.knative.dev/broker.class"), value: "MTChannelBasedBroker"},
         JSONPatch{op: "add", path: "/spec/config", value: {"apiVersion": "v1", "kind": "ConfigMap", "name": "config-br-default-channel",
           "namespace": "knative-eventing"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: brokers}
spec: {policyName: brokers}
`
