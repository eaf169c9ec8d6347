package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/internal/cli/attach"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/runner/control"
	"vmop/runner/control/pipe"
	"vmop/runner/hardware"
)

// errNoPod means that a VM has no pod that could be reached.
var errNoPod = errors.New("the VM is not running")

// pod is the pod that a VM runs in.
type pod struct {
	Name string
	UID  types.UID
}

// podOf returns the pod that a VM's runner has reported.
func podOf(vm *v1.VirtualMachine) (pod, error) {
	r := vm.Status.Runner
	if r == nil || r.PodName == "" || vm.Status.Phase == v1.PhaseStopped {
		return pod{}, hinted{
			fmt.Errorf("VM %s: %w: it is %s", vm.Name, errNoPod, vm.Status.Phase),
			"kubectl vmop start " + vm.Name,
		}
	}
	return pod{r.PodName, r.PodUID}, nil
}

// podNameOf returns the name of a VM's pod, even if the pod does not exist.
func podNameOf(vm *v1.VirtualMachine) string {
	return fmt.Sprintf("%s-%d", vm.Name, vm.Status.PodOrdinal)
}

// runnerClient returns a client for a VM's runner through pods/exec. The runner shows the user's name to other users as
// unverified.
func (c *cluster) runnerClient(ctx context.Context, vm *v1.VirtualMachine) *control.Client {
	return control.NewClient(func(ctx context.Context) (net.Conn, error) {
		p, err := podOf(vm)
		if err != nil {
			return nil, err
		}
		return c.dialControl(ctx, p.Name, vm.Name)
	}, c.userName(ctx))
}

// dialControl connects to the control interface of the runner in a pod.
func (c *cluster) dialControl(ctx context.Context, pod, vm string) (net.Conn, error) {
	inside, stdin := io.Pipe()
	stdout, outside := io.Pipe()
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var once sync.Once
	conn := pipe.New(stdout, stdin, func() error {
		once.Do(func() {
			_ = stdin.Close()
			cancel()
		})
		return nil
	})
	go func() {
		err := c.execInPod(ctx, pod, []string{"vmrunner", "pipe", "--runtime-dir", runtimeDir(vm)}, inside, outside)
		if err == nil {
			err = io.EOF
		}
		_ = outside.CloseWithError(err)
		_ = inside.CloseWithError(err)
		cancel()
	}()
	return conn, nil
}

// runtimeDir returns the runtime directory of a VM in its pod.
func runtimeDir(vm string) string { return path.Join(objects.RuntimeDir, vm) }

// execInPod runs a command in a pod. The error contains the command's error output.
func (c *cluster) execInPod(ctx context.Context, pod string, command []string, in io.Reader, out io.Writer) error {
	return c.execIn(ctx, pod, objects.ContainerName, command, in, out)
}

// execIn runs a command in a container, like exec.
func (c *cluster) execIn(
	ctx context.Context, pod, container string, command []string, in io.Reader, out io.Writer,
) error {
	request := c.core.RESTClient().Post().Namespace(c.namespace).Resource("pods").Name(pod).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{
			Container: container, Command: command, Stdin: in != nil, Stdout: true, Stderr: true,
		}, scheme.ParameterCodec)
	websocket, err := remotecommand.NewWebSocketExecutor(c.config, "GET", request.URL().String())
	if err != nil {
		return fmt.Errorf("connect to pod %s: %w", pod, err)
	}
	spdy, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return fmt.Errorf("connect to pod %s: %w", pod, err)
	}
	executor, err := remotecommand.NewFallbackExecutor(websocket, spdy, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	})
	if err != nil {
		return fmt.Errorf("connect to pod %s: %w", pod, err)
	}
	var said tail
	err = executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: &said})
	return said.explainExec(pod, err)
}

// tail keeps the end of a program's output.
type tail struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// longestTail is the maximum length of that, in bytes.
const longestTail = 4 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.text.Len() > longestTail {
		t.text.Next(t.text.Len() - longestTail)
	}
	return t.text.Write(p)
}

// notRunning is the exit code of vmrunner if no runner is running.
const notRunning = 3

// explainExec returns the reason why a command in a pod has failed.
func (t *tail) explainExec(pod string, err error) error {
	var exit exec.ExitError
	if err == nil || !errors.As(err, &exit) {
		return err
	}
	t.mu.Lock()
	text := strings.TrimPrefix(strings.TrimSpace(t.text.String()), "vmrunner: ")
	t.mu.Unlock()
	switch {
	case exit.ExitStatus() == notRunning:
		return fmt.Errorf("pod %s: %w", pod, control.ErrNotRunning)
	case strings.Contains(text, `no verb "pipe"`):
		return fmt.Errorf("pod %s has a runner of an earlier version: restart the VM", pod)
	}
	return fmt.Errorf("pod %s: %s", pod, cli.Printable(text))
}

func newAction(f *flags, what control.Action, done, short, long string) *cobra.Command {
	var form string
	cmd := &cobra.Command{Use: string(what) + " NAME", Short: short, Long: long, GroupID: groupPower}
	f.oneVM(cmd)
	doneFlag(cmd, &form)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch m, err := f.viaManager(cmd); {
		case err != nil:
			return err
		case m != nil:
			return m.carryOutAction(cmd, args, fleet.Action(what), form, done, waiting{})
		}
		c, vm, err := f.findVM(cmd, args)
		if err != nil {
			return err
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		if err := c.runnerClient(cmd.Context(), vm).Act(ctx, what); err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, done)
	}
	return cmd
}

// boundRequest limits the time of a request to a runner.
func boundRequest(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, control.AnswerTime,
		fmt.Errorf("the runner did not answer within %s", control.AnswerTime))
}

// findVM returns the VM that the arguments start with.
func (f *flags) findVM(cmd *cobra.Command, args []string) (*cluster, *v1.VirtualMachine, error) {
	c, err := f.connectTo(cmd)
	if err != nil {
		return nil, nil, err
	}
	name, _ := splitName(args)
	vm, err := c.getVM(cmd.Context(), name)
	return c, vm, err
}

// runner is the part of a VM's runner that verbs use, independent of the connection.
type runner interface {
	attach.Runner
	// Plan writes the plan in a form: text, why, argv, shell or json.
	Plan(ctx context.Context, w io.Writer, form string) error
	// Devices returns the devices of the machine with their names in the guest.
	Devices(ctx context.Context) (hardware.Report, error)
}

var _ runner = ofResource{}

// guest is a VM that a verb connects to: through pods/exec with the user's rights in the cluster, or through the
// manager.
type guest struct {
	runner

	name string
	// uid is the VM's UID, login is the user that cloud-init creates. Each is "" if unknown.
	uid, login string
}

// findGuest returns the VM that the arguments start with. If up is true, it waits for a starting VM.
func (f *flags) findGuest(cmd *cobra.Command, args []string, up bool) (guest, error) {
	m, err := f.viaManager(cmd)
	if err != nil {
		return guest{}, err
	}
	if m != nil {
		return m.findGuest(cmd, args, up)
	}
	find := f.findVM
	if up {
		find = f.findRunning
	}
	c, vm, err := find(cmd, args)
	if err != nil {
		return guest{}, err
	}
	return guest{ofResource{c.runnerClient(cmd.Context(), vm), vm}, vm.Name, string(vm.UID), loginOf(vm)}, nil
}

// ofResource is a runner reached through pods/exec, which knows the VM's definition.
type ofResource struct {
	*control.Client
	vm *v1.VirtualMachine
}

// Devices implements runner, with fields of the definition.
func (r ofResource) Devices(ctx context.Context) (hardware.Report, error) {
	report, err := r.Client.Devices(ctx)
	return objects.DevicesOf(r.vm, report), err
}

// findRunning returns the VM that the arguments start with, like find, and waits until it is running.
func (f *flags) findRunning(cmd *cobra.Command, args []string) (*cluster, *v1.VirtualMachine, error) {
	c, vm, err := f.findVM(cmd, args)
	if err != nil {
		return nil, nil, err
	}
	informed := ""
	vm, err = c.awaitVM(cmd.Context(), vm.Name, func(vm *v1.VirtualMachine) (bool, error) {
		if vm == nil {
			return false, errors.New("the VM has been deleted meanwhile")
		}
		s := vm.Status
		switch {
		case s.Phase == v1.PhaseRunning, s.Phase == v1.PhaseMigrating, s.Phase == v1.PhaseStopping && s.Runner != nil:
			return true, nil
		case vm.Spec.DesiredState() == v1.Stopped && s.ObservedGeneration >= vm.Generation:
			_, err := podOf(vm)
			return err == nil, err
		case s.Phase == v1.PhaseFailed:
			return false, hinted{fmt.Errorf("VM %s has failed: %s", vm.Name, s.Message), "kubectl vmop why " + vm.Name}
		}
		if text := strings.TrimSpace(s.Reason + " " + s.Message); text != informed {
			informed = text
			cmd.PrintErrf("waiting for %s to start: %s\n", vm.Name, cli.Printable(text))
		}
		return false, nil
	})
	return c, vm, err
}
