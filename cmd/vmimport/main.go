// Command vmimport fills a disk: it writes the raw bytes of an image to a file or a block device. It is the
// program of the pods that import and serve disks on Kubernetes, in the runner's image.
//
//	vmimport import --url URL --target FILE     imports from a URL
//	vmimport import --image REF --target FILE   imports from a container image
//	vmimport import --upload --target FILE      waits for vmimport receive, and imports the received image
//	vmimport receive --size BYTES <IMAGE        sends an image to a waiting vmimport
//	vmimport clone FROM TO                      copies a disk, whatever is in it
//	vmimport export DISK                        waits for vmimport fetch, and sends it the disk
//	vmimport fetch                              prints the output of vmimport export
//	vmimport serve --disk FILE --tls FOLDER     serves a disk over NBD with mutual TLS
//
// The last output of an import is a JSON object, on standard output and in the file of --termination-log. Its
// reason is Imported, or one of package diskimage. vmimport exits with 0 if the disk is complete, 2 for wrong
// usage, and 1 otherwise. After a failure, a target file does not exist, and a target device lacks its beginning.
// See docs/tasks/vmimport.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"vmop/internal/cli"
	"vmop/internal/confine"
	"vmop/internal/loopback"
	"vmop/internal/outbound"
)

// version is set at build time: -ldflags "-X main.version=…".
var version = "devel"

func main() { runProgram(outbound.Rule{}) }

// runProgram is the main program. It may reach the addresses that a rule permits.
func runProgram(reach outbound.Rule) {
	confine.Serve(loopback.Deny) // if this process confines itself
	unix.Umask(0o077)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := newImportCommand(reach).ExecuteContext(ctx)
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

// reported is an error that is already part of a reported outcome.
type reported struct{ error }
