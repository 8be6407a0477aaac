// Command promotiondemo runs the worked example of promotion on this computer, for a visitor: a management cluster and two
// leaf clusters, each with Flux, a Git host, and Waybill with its page. A version goes from dev through staging to prod, where
// it waits for the visitor. It needs neither root nor a container engine, and everything ends with it.
//
//	promotiondemo WAYBILL
//
// WAYBILL is the path of the program. When standard input is at its end, the command does not wait.
package main

import (
	"testing"

	"github.com/waybill-dev/waybill/test/testbed/binary"
	"github.com/waybill-dev/waybill/test/testbed/visitor"
)

func main() {
	visitor.Main("promotiondemo", binary.Promotion(), func(t testing.TB, v *visitor.Visit) {
		d := &demo{Visit: v}
		d.run(t)
	})
}
