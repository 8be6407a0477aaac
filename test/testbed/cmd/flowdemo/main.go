// Command flowdemo runs an event flow on this computer, for a visitor: an API server, Knative Eventing's own programs, and Waybill
// with its page. When the visitor presses Enter, a Channel and an EventFlow are applied, and a Trigger that ends at Waybill; an
// event then goes all the way and becomes an action. It needs root, or a user namespace, and everything ends with it.
//
//	flowdemo WAYBILL
//
// WAYBILL is the path of the program. When standard input is at its end, the command does not wait.
package main

import (
	"testing"

	"github.com/waybill-dev/waybill/test/testbed/binary"
	"github.com/waybill-dev/waybill/test/testbed/visitor"
)

func main() {
	needs := []binary.Binary{binary.Kube()}
	for _, command := range binary.KnativeCommands() {
		needs = append(needs, binary.Knative(command))
	}
	visitor.Main("flowdemo", needs, func(t testing.TB, v *visitor.Visit) {
		d := &demo{Visit: v}
		d.run(t)
	})
}
