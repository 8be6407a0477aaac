package controller_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// TestADeletionFailsNoPass: a flow that shares its Broker leaves, and its last write wakes no pass that writes to it again.
func TestADeletionFailsNoPass(t *testing.T) {
	t.Parallel()
	for range 20 {
		bubbletest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			lines := &journal{}
			w.log = lines
			w.open()
			w.start()
			w.apply(flows, orders)
			w.apply(flows, returns)
			w.want("shop/returns", "Ready True Ready")
			before := lines.count("pass failed")
			w.delete(flows, "shop/orders")
			rest()
			if n := lines.count("pass failed"); n > before {
				t.Errorf("%d failed passes: %s", n-before, lines.text.String())
			}
		})
	}
}
