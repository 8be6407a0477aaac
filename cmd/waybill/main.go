// Command waybill takes a revision from commit to every environment that should run it.
package main

import (
	_ "time/tzdata" // schedules name time zones, also where the system knows none

	"os"

	"github.com/waybill-dev/waybill/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:])) }
