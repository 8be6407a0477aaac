// Command sequential prints the import paths of the packages that have no goroutines. Their tests run without the race
// detector, which makes them up to ten times as slow.
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
		fmt.Fprintf(os.Stderr, "sequential: list packages: %v\n", err)
		os.Exit(1)
	}
	for path := range strings.FieldsSeq(string(out)) {
		if archtest.Sequential(path) {
			fmt.Println(path)
		}
	}
}
