package kube

import "testing"

// TestAPodWithoutAnAddressIsNotThisComputer: an empty host means the local one.
func TestAPodWithoutAnAddressIsNotThisComputer(t *testing.T) {
	t.Parallel()
	c := &Cluster{inside: true}
	if connection, err := c.DialPod(t.Context(), PodAddress{Namespace: "builds", Pod: "worker",
		Port: 5010}); err == nil || err.Error() != "connect to pod worker: it has no address yet" {
		t.Errorf("got %v, %v", connection, err)
	}
}
