package kube_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

func TestAddressesOfPodsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	for _, want := range []kube.PodAddress{
		{Namespace: "builds", Pod: "waybill-worker-shop-41", Port: 5010, UID: "4f1c", IP: "10.1.2.3"},
		{Namespace: "builds", Pod: "a.b", Port: 1, UID: "4f1c", IP: "fd00::1"},
	} {
		if got, err := kube.ParsePodAddress(want.String()); err != nil || got != want {
			t.Errorf("%s: got %+v, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "http://127.0.0.1:1", "pod://", "pod://builds", "pod://builds/worker",
		"pod://builds/:5010", "pod://builds/worker:0",
		"pod://builds/worker:65536", "pod://builds/..%2f..:5010", "pod://Builds/worker:1"} {
		if got, err := kube.ParsePodAddress(text); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
}
