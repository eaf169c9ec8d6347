// Command vmtype is "vmrunner vmtype": the verbs for authors of VM types. It is a separate program, so that a
// process that runs a VM neither links nor initialises the code for authors. vmrunner replaces itself with vmtype
// and passes all arguments on. Package authoring contains the verbs.
//
// Exit codes:
//
//   - 0: success
//   - 1: vmtype found a problem
//   - 2: wrong usage
//   - 128 plus the number of a signal: the signal ended vmtype
package main

import (
	"context"
	"os"

	"vmop/authoring/vmtype"
	"vmop/authoring/vmtypestest"
	"vmop/vmtypes/evaluate"
)

func main() {
	evaluate.Serve(context.Background(), vmtypestest.Serve) // if this process evaluates types
	os.Exit(vmtype.Main(context.Background(), os.Args[1:]))
}
