// Command pure prints the import paths of the packages that only decide. They have no goroutines, so their tests run
// without the race detector, which makes them ten times as slow.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/waybill-dev/waybill/internal/archtest"
)

func main() {
	out, err := exec.Command("go", "list", "./internal/...").Output() //nolint:noctx // it ends with this program
	if err != nil {
		fmt.Fprintf(os.Stderr, "pure: list packages: %v\n", err)
		os.Exit(1)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if archtest.LayerOf(path) == archtest.Pure {
			fmt.Println(path)
		}
	}
}
