// Command kubectl-vmop is the kubectl plugin for VirtualMachines: kubectl vmop VERB.
//
//	kubectl vmop start|stop|restart NAME       sets whether a VM runs
//	kubectl vmop console|vnc|spice|ssh NAME    connects to the guest
//	kubectl vmop disk list|create|resize       manages disks that outlive VMs
//	kubectl vmop snapshot list|create|remove   manages snapshots of VMs and disks
//	kubectl vmop clone NAME NEW                creates a VM from another VM
//	kubectl vmop plan|why|events|diff NAME     explains the state of a VM, and previews changes
//
// It changes resources with the rights of the user, and reaches a VM's runner through pods/exec. It requires only
// a kubeconfig, and the manager in the cluster. With --manager, it uses the manager's JSON API for both, with a
// token and without rights in the cluster. docs/reference/kubectl.md lists all verbs.
//
// Exit codes:
//
//   - 0: success
//   - 1: a failure
//   - 2: wrong usage
//   - 3: the VM, disk or snapshot does not exist
//   - 4: the user lacks the permission
//   - 124: --timeout has passed
//
// diff exits with 1 if there are differences, and can-i if the answer is no. ssh, scp, get and describe exit with the
// code of the program that they run.
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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/streaming/pkg/httpstream"

	"vmop/internal/cli"
)

// version is set at build time: -ldflags "-X main.version=…".
var version = "devel"

func main() {
	utilruntime.ErrorHandlers = nil // about lost connections, which also end their users with an error
	ctx, stop := cli.UntilSignal(context.Background())
	cmd, err := newPluginCommand().ExecuteContextC(ctx)
	err = explainTimeout(cmd, err)
	stop()
	if err != nil && !errors.As(err, new(cli.ExitError)) && !errors.As(err, new(cli.SignalError)) {
		fmt.Fprintln(os.Stderr, "kubectl-vmop:", errorText(err))
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

// errTimeout is the reason why a wait ended.
var errTimeout = errors.New("--timeout has passed")

// explainTimeout adds errTimeout to the error of a request that --timeout has ended.
func explainTimeout(cmd *cobra.Command, err error) error {
	limit := cmd.Flags().Lookup("timeout")
	if limit == nil || !limit.Changed || errors.Is(err, errTimeout) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %w", errTimeout, err)
}

// hinted is an error with a hint for the user.
type hinted struct {
	error

	hint string
}

func (h hinted) Unwrap() error { return h.error }

// errorText returns the text of an error for the user.
func errorText(err error) string {
	text := causeOfStream(err).Error()
	var h hinted
	if errors.As(err, &h) {
		text += "\nhint: " + h.hint
	}
	return strings.TrimSpace(text)
}

// causeOfStream returns the reason why a stream could not be opened, without the redundant information that it is a
// stream.
func causeOfStream(err error) error {
	var upgrade *httpstream.UpgradeFailureError
	if errors.As(err, &upgrade) && upgrade.Cause != nil {
		return upgrade.Cause
	}
	return err
}

func exitCode(err error) int {
	var exit cli.ExitError
	var sig cli.SignalError
	reason := causeOfStream(err)
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
	case apierrors.IsNotFound(reason), isAnswer(err, http.StatusNotFound):
		return exitNotFound
	case apierrors.IsForbidden(reason), apierrors.IsUnauthorized(reason),
		isAnswer(err, http.StatusForbidden), isAnswer(err, http.StatusUnauthorized):
		return exitForbidden
	}
	return exitFailed
}
