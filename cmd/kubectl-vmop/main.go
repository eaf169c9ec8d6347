// Command kubectl-vmop is the plugin of kubectl for VirtualMachines: kubectl vmop VERB.
//
//	kubectl vmop start|stop|restart NAME       sets whether a VM runs
//	kubectl vmop console|vnc|spice|ssh NAME    connects with the guest
//	kubectl vmop disk list|create|resize       manages disks that outlive VMs
//	kubectl vmop snapshot list|create|remove   manages snapshots of VMs and disks
//	kubectl vmop clone NAME NEW                makes a VM of another one
//	kubectl vmop plan|why|events|diff NAME     says what is, why, and what would be
//
// It changes resources with the rights of the user, and reaches a VM's runner by pods/exec: it
// needs nothing in the cluster but the manager and a kubeconfig. With --manager it does both through the
// manager's JSON API, with a token and no rights in the cluster. docs/kubectl.md has all verbs.
//
// It exits with 0 on success, 1 after a failure, 2 for wrong usage, 3 if there is no such VM, disk or
// snapshot, 4 if the user may not do that, and 124 when --timeout has passed. diff exits with 1 if there are
// differences, ssh and scp with the code of the program that they run.
package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/httpstream"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"vmop/cli"
)

// version is set at build time: -ldflags "-X main.version=…".
var version = "devel"

func main() {
	utilruntime.ErrorHandlers = nil // of lost connections, which end what uses them with an error, too
	ctx, stop := cli.UntilSignal(context.Background())
	cmd, err := newCommand().ExecuteContextC(ctx)
	err = limited(cmd, err)
	stop()
	if err != nil && !errors.As(err, new(cli.ExitError)) && !errors.As(err, new(cli.SignalError)) {
		fmt.Fprintln(os.Stderr, "kubectl-vmop:", describe(err))
	}
	os.Exit(exitCode(err))
}

// Exit codes; see the package comment.
const (
	exitFailed    = 1
	exitNotFound  = 3
	exitForbidden = 4
	exitTimeout   = 124
)

// errTimeout is why a wait ended.
var errTimeout = errors.New("--timeout has passed")

// limited says of a request that --timeout has ended that it has.
func limited(cmd *cobra.Command, err error) error {
	limit := cmd.Flags().Lookup("timeout")
	if limit == nil || !limit.Changed || errors.Is(err, errTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", errTimeout, err)
}

// hinted is an error, and what the user can do.
type hinted struct {
	error

	hint string
}

func (h hinted) Unwrap() error { return h.error }

// describe returns the text of an error for people.
func describe(err error) string {
	text := cause(err).Error()
	var h hinted
	if errors.As(err, &h) {
		text += "\nhint: " + h.hint
	}
	return strings.TrimSpace(text)
}

// cause returns why a stream could not be opened, without what is known: that it is a stream.
func cause(err error) error {
	var upgrade *httpstream.UpgradeFailureError
	if errors.As(err, &upgrade) && upgrade.Cause != nil {
		return upgrade.Cause
	}
	return err
}

func exitCode(err error) int {
	var exit cli.ExitError
	var sig cli.SignalError
	reason := cause(err)
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.Code
	case errors.As(err, &sig):
		return sig.ExitCode()
	case errors.As(err, new(cli.UsageError)):
		return cli.ExitUsage
	case errors.Is(err, errTimeout):
		return exitTimeout
	case apierrors.IsNotFound(reason), answered(err, http.StatusNotFound):
		return exitNotFound
	case apierrors.IsForbidden(reason), apierrors.IsUnauthorized(reason),
		answered(err, http.StatusForbidden), answered(err, http.StatusUnauthorized):
		return exitForbidden
	}
	return exitFailed
}
