package flow

import "testing"

func TestAFlowIsNamedAfterItsServiceInstance(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"a":                                    "event-flow-a",
		"0d4a6a54-3a2f-4a4e-9a10-9b1d5b9f7c11": "event-flow-0d4a6a54-3a2f-4a4e-9a10-9b1d5b9f7c11",
		"Demo":                                 "event-flow-" + InstanceHash("Demo"),
		"a/b":                                  "event-flow-" + InstanceHash("a/b"),
		"-a":                                   "event-flow-" + InstanceHash("-a"),
	} {
		if got := InstanceFlow(id); got != want {
			t.Errorf("service instance %q has flow %q, want %q", id, got, want)
		}
	}
	if hash := InstanceHash("Demo"); len(hash) != 32 || hash == InstanceHash("demo") {
		t.Errorf("hash %q", hash)
	}
}
