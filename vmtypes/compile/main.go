// Command compile writes the compiled forms of the stock VM types to a folder next to their sources. Run it with
// go generate ./vmtypes.
package main

import (
	"fmt"
	"os"

	"vmop/vmtypes"
)

func main() {
	if err := vmtypes.Compile("compiled"); err != nil {
		fmt.Fprintln(os.Stderr, "compile:", err)
		os.Exit(1)
	}
}
