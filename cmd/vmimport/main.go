// Command vmimport fills a disk: a file or a block device gets the raw bytes of an image. It is
// the program of the pods that import and serve disks on Kubernetes, in the runner's image.
//
//	vmimport import --url URL --target FILE     imports from a URL
//	vmimport import --image REF --target FILE   imports from a container image
//	vmimport import --upload --target FILE      waits for vmimport receive, and imports what that sends
//	vmimport receive --size BYTES <IMAGE        sends an image to a vmimport that waits for it
//	vmimport clone FROM TO                      copies a disk, whatever is in it
//	vmimport export DISK                        waits for vmimport fetch, and sends that the disk
//	vmimport fetch                              prints what vmimport export sends
//	vmimport serve --disk FILE --tls FOLDER     serves a disk by NBD with mutual TLS
//
// The last that an import says is a JSON object, on standard output and in the file of
// --termination-log: the reason is Imported, or one of package diskimage. It exits with 0 if the
// disk is whole, with 2 for wrong usage, and with 1 if it isn't: then there is no file, and a
// device has no beginning. docs/import.md tells more.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"vmop/cli"
	"vmop/confine"
	"vmop/loopback"
	"vmop/outbound"
)

// version is set when the program is built: -ldflags "-X main.version=…".
var version = "devel"

func main() { run(outbound.Rule{}) }

// run is the program, which reaches the addresses that a rule permits.
func run(reach outbound.Rule) {
	confine.Serve(loopback.Deny) // if this is a process that confines itself
	unix.Umask(0o077)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := newCommand(reach).ExecuteContext(ctx)
	stop()
	var usage cli.UsageError
	switch {
	case err == nil:
		return
	case errors.As(err, &usage):
		fmt.Fprintln(os.Stderr, "vmimport:", cli.Describe(err))
		os.Exit(cli.ExitUsage)
	case !errors.As(err, new(reported)):
		fmt.Fprintln(os.Stderr, "vmimport:", cli.Describe(err))
	}
	os.Exit(1)
}

// reported is an error that has been reported as an outcome.
type reported struct{ error }
