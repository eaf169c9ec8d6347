// Command vmtype is "vmrunner vmtype": the verbs for authors of VM types. It is a
// program of its own so that a process that runs a VM neither links nor initialises
// what only authors need; vmrunner becomes it, arguments and all. Package authoring
// says what is in it.
//
// It exits with 0, with 1 when it found something to complain about, with 2 when it
// was called wrongly, and with 128 and the signal's number when a signal ended it.
package main

import (
	"context"
	"os"

	"vmop/authoring/vmtype"
	"vmop/authoring/vmtypestest"
	"vmop/vmtypes/evaluate"
)

func main() {
	evaluate.Serve(context.Background(), vmtypestest.Serve) // if this is such a process
	os.Exit(vmtype.Main(context.Background(), os.Args[1:]))
}
