package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"

	"k8s.io/apimachinery/pkg/types"

	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/manager/web/stream"
	"vmop/runner/control"
	"vmop/runner/hardware"
	"vmop/vmtypes/plan"
)

// runnerTarget returns the address of the VM's runner, or stream.ErrUnreachable.
func (vm found) runnerTarget() (stream.Target, error) {
	var uid types.UID
	var ip string
	if vm.pod != nil {
		uid, ip = vm.pod.UID, vm.pod.Status.PodIP
	}
	target, err := stream.TargetOf(vm.VirtualMachine, uid, ip)
	if vm.pod == nil {
		err = fmt.Errorf("%w: the VM has no pod", stream.ErrUnreachable)
	}
	return target, err
}

// requestAction requests an action from the VM's runner.
func (f *Fleet) requestAction(ctx context.Context, user string, vm found, a control.Action) error {
	target, err := vm.runnerTarget()
	if err != nil {
		return asRefusal(err)
	}
	return asRefusal(f.opts.Keys.Client(target, user).Act(ctx, a))
}

// dialRunner returns a client of a VM's runner for streams.
func (f *Fleet) dialRunner(user, name string) (*control.Client, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	target, err := vm.runnerTarget()
	if err != nil {
		return nil, asRefusal(err)
	}
	return f.opts.Keys.Client(target, user), nil
}

// queryClient returns a client of a VM's runner for answers that are kept in memory, with a size limit.
func (f *Fleet) queryClient(vm found) (*control.Client, error) {
	target, err := vm.runnerTarget()
	if err != nil {
		return nil, asRefusal(err)
	}
	return f.opts.Keys.Bounded(target, largestAnswer), nil
}

// largestAnswer is the maximum size of a runner's answer in bytes.
const largestAnswer = 20 << 20

// isUp reports whether the machine exists, so that its runner knows it best.
func (vm found) isUp() bool { return stateOf(vm.VirtualMachine).Up() }

// Plan implements fleet.Fleet.
func (f *Fleet) Plan(ctx context.Context, name string) ([]fleet.Argument, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	if !vm.isUp() {
		made, err := f.opts.Types.Plan(ctx, vm.VirtualMachine)
		var faults fleet.Faults
		if errors.As(err, &faults) {
			return nil, fleet.Refusal(err.Error())
		}
		if err != nil {
			return nil, err
		}
		return describe.Plan(made), nil
	}
	made, err := f.runningPlan(ctx, vm)
	if err != nil {
		return nil, err
	}
	return describe.Plan(made), nil
}

// runningPlan returns the plan of a running VM, from its runner.
func (f *Fleet) runningPlan(ctx context.Context, vm found) (*plan.Plan, error) {
	runner, err := f.queryClient(vm)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := runner.Plan(ctx, &text, "json"); err != nil {
		return nil, asRefusal(err)
	}
	var p plan.Plan
	if err := json.Unmarshal(text.Bytes(), &p); err != nil {
		return nil, fmt.Errorf("read the plan of VM %s: %w", vm.Name, err)
	}
	return &p, nil
}

// Source implements fleet.Fleet.
func (f *Fleet) Source(ctx context.Context, name, module string) (string, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return "", err
	}
	if !vm.isUp() {
		return f.opts.Types.Module(ctx, vm.VirtualMachine, module)
	}
	runner, err := f.queryClient(vm)
	if err != nil {
		return "", err
	}
	text, err := runner.Source(ctx, module)
	return text, asRefusal(err)
}

// Devices implements fleet.Fleet.
func (f *Fleet) Devices(ctx context.Context, name string) (hardware.Report, error) {
	vm, err := f.findVM(name)
	if err == nil && !vm.isUp() {
		err = describe.NoDevices
	}
	if err != nil {
		return hardware.Report{}, err
	}
	runner, err := f.queryClient(vm)
	if err != nil {
		return hardware.Report{}, err
	}
	report, err := describe.Devices(ctx, runner)
	return objects.DevicesOf(vm.VirtualMachine, report), asRefusal(err)
}

// Usage implements fleet.Fleet.
func (f *Fleet) Usage(ctx context.Context, name string) ([]fleet.Sample, error) {
	vm, err := f.findVM(name)
	if err != nil || !vm.isUp() {
		return nil, err
	}
	runner, err := f.queryClient(vm)
	if err != nil {
		return nil, err
	}
	samples, err := describe.Usage(ctx, runner)
	return samples, asRefusal(err)
}

// Screenshot implements fleet.Fleet.
func (f *Fleet) Screenshot(ctx context.Context, w io.Writer, name string) error {
	vm, err := f.findVM(name)
	if err != nil {
		return err
	}
	runner, err := f.queryClient(vm)
	if err != nil {
		return err
	}
	return asRefusal(runner.Screenshot(ctx, w))
}

// Screen implements fleet.Fleet.
func (f *Fleet) Screen(ctx context.Context, user, name string, mode fleet.Mode) (net.Conn, error) {
	runner, err := f.dialRunner(user, name)
	if err != nil {
		return nil, err
	}
	conn, err := runner.Screen(ctx, control.Mode(mode))
	return conn, asRefusal(err)
}

// SPICE implements fleet.Fleet.
func (f *Fleet) SPICE(ctx context.Context, user, name, id string, mode fleet.Mode) (net.Conn, error) {
	runner, err := f.dialRunner(user, name)
	if err != nil {
		return nil, err
	}
	conn, err := runner.SPICE(ctx, id, control.Mode(mode))
	return conn, asRefusal(err)
}

// Console implements fleet.Fleet.
func (f *Fleet) Console(ctx context.Context, user, name string, mode fleet.Mode) (net.Conn, error) {
	runner, err := f.dialRunner(user, name)
	if err != nil {
		return nil, err
	}
	conn, err := runner.Console(ctx, control.Mode(mode))
	return conn, asRefusal(err)
}

// Forward implements fleet.Fleet.
func (f *Fleet) Forward(ctx context.Context, user, name string, port int) (net.Conn, error) {
	runner, err := f.dialRunner(user, name)
	if err != nil {
		return nil, err
	}
	conn, err := runner.Forward(ctx, port)
	return conn, asRefusal(err)
}
