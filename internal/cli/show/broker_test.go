package show

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
)

// TestServiceInstancesTakeOneLine: platforms choose ids and places, line breaks included.
func TestServiceInstancesTakeOneLine(t *testing.T) {
	t.Parallel()
	const forged = "x\nforged  ready"
	a := &service.ServiceAttributes{Service: forged, Plan: forged, Maintenance: forged, Organization: forged, Space: forged, Platform: forged, Namespace: forged}
	x := service.ServiceInstanceView{ID: forged, Service: forged, Plan: forged, User: "platform", State: "ready", Asked: a}
	now := time.Unix(0, 0)
	for _, line := range append(ServiceInstances([]service.ServiceInstanceView{x}, now), ServiceInstance(x, now)...) {
		if strings.Contains(line, "\n") || strings.Contains(line, "forged") {
			t.Errorf("%q", line)
		}
	}
}
