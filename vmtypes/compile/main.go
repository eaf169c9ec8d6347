// Command compile writes the compiled form of the stock VM types beside their
// sources; run it by go generate ./vmtypes.
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
