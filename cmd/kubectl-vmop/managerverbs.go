package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/cli"
	"vmop/manager/web/fleet"
)

// The following functions implement verbs through the manager.

// isAnswer reports whether an error is an answer of the manager with a certain code.
func isAnswer(err error, code int) bool {
	var p *problem
	return errors.As(err, &p) && p.Status == code
}

func actionOf(state v1.State, force bool) fleet.Action {
	switch {
	case state == v1.Running:
		return fleet.Start
	case force:
		return fleet.Kill
	}
	return fleet.Stop
}

// carryOutAction performs an action, unless the VM already has the resulting state. If requested, it waits for the
// effect.
func (m *manager) carryOutAction(cmd *cobra.Command, args []string, a fleet.Action, form, done string,
	w waiting,
) error {
	name, _ := splitName(args)
	ctx, cancel := w.waitContext(cmd.Context())
	defer cancel()
	vm, err := m.getVM(ctx, name)
	if err != nil {
		return err
	}
	reached := followOperation(a, vm.Operations, isAchieved(a, vm.Started))
	if is, err := reached(vm); !is || err != nil || repeatsAlways(a) {
		if err := m.doRequest(ctx, http.MethodPost, m.vmURL(name, string(a)), nil, nil); err != nil {
			return err
		}
	}
	if w.wait {
		vm, err = m.awaitVM(ctx, name, reached)
	} else {
		vm, err = m.getVM(ctx, name)
	}
	if err != nil {
		return err
	}
	return printDone(cmd, form, vm, vmKind, name, done)
}

// repeatsAlways reports whether repeating an action has an effect on a running VM.
func repeatsAlways(a fleet.Action) bool { return isRestart(a) || a == fleet.Reset }

func isRestart(a fleet.Action) bool { return a == fleet.Restart || a == fleet.ForceRestart }

// operationOf returns the operation type of an action.
func operationOf(a fleet.Action) v1.OperationType {
	switch a {
	case fleet.Start:
		return v1.OperationStart
	case fleet.Stop, fleet.Kill:
		return v1.OperationStop
	case fleet.Restart, fleet.ForceRestart:
		return v1.OperationRestart
	case fleet.Reset:
		return v1.OperationReset
	}
	return ""
}

// followOperation adds to the goal of an action that the wait ends with an error if a new operation for that action has
// failed.
func followOperation(a fleet.Action, before []fleet.Operation, goal func(*seen) (bool, error)) func(*seen) (bool,
	error) {
	return func(vm *seen) (bool, error) {
		if vm == nil {
			return goal(vm)
		}
		for _, o := range vm.Operations {
			same := func(b fleet.Operation) bool { return b.Name == o.Name }
			failed := o.Phase == string(v1.OperationFailed) || o.Phase == string(v1.OperationSuperseded)
			if o.Type == string(operationOf(a)) && failed && !slices.ContainsFunc(before, same) {
				return false, hinted{
					fmt.Errorf("%s %s: %s: %s", o.Type, vm.Name, o.Reason, cli.Printable(o.Message)),
					"kubectl vmop why " + vm.Name,
				}
			}
		}
		return goal(vm)
	}
}

// isAchieved is the goal of an action on a VM with a guest that started running at the given time.
func isAchieved(a fleet.Action, started time.Time) func(*seen) (bool, error) {
	return func(vm *seen) (bool, error) {
		switch {
		case vm == nil:
			return false, errors.New("the VM has been deleted meanwhile")
		case a == fleet.Stop || a == fleet.Kill:
			return vm.State == fleet.Stopped, nil
		case a == fleet.Pause:
			return vm.State == fleet.Paused, nil
		case vm.State == fleet.Failed && a != fleet.Start:
			return false, hinted{
				fmt.Errorf("VM %s has failed: %s: %s", vm.Name, vm.Reason, vm.Message), "kubectl vmop why " + vm.Name,
			}
		}
		return vm.State == fleet.Running && (!isRestart(a) || vm.Started.After(started)), nil
	}
}

// findGuest implements flags.guest through the manager.
func (m *manager) findGuest(cmd *cobra.Command, args []string, up bool) (guest, error) {
	name, _ := splitName(args)
	vm, err := m.getVM(cmd.Context(), name)
	if err != nil {
		return guest{}, err
	}
	informed := ""
	if up && !vm.State.Up() {
		vm, err = m.awaitVM(cmd.Context(), name, func(vm *seen) (bool, error) {
			switch {
			case vm == nil:
				return false, errors.New("the VM has been deleted meanwhile")
			case vm.State.Up():
				return true, nil
			case vm.State == fleet.Stopped:
				return false, hinted{
					fmt.Errorf("VM %s: %w: it is Stopped", name, errNoPod), "kubectl vmop start " + name,
				}
			case vm.State == fleet.Failed:
				return false, hinted{fmt.Errorf("VM %s has failed: %s", name, vm.Message), "kubectl vmop why " + name}
			}
			if text := strings.TrimSpace(vm.Reason + " " + vm.Message); text != informed {
				informed = text
				cmd.PrintErrf("waiting for %s to start: %s\n", name, cli.Printable(text))
			}
			return false, nil
		})
	}
	if err != nil {
		return guest{}, err
	}
	return guest{runner: managed{m, name}, name: name, uid: vm.UID}, nil
}

// printWhy prints an explanation of a VM's state.
func (m *manager) printWhy(cmd *cobra.Command, args []string) error {
	name, _ := splitName(args)
	vm, err := m.getVM(cmd.Context(), name)
	if err != nil {
		return err
	}
	told := &v1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Name: name}}
	told.Spec.VM.State = v1.Stopped
	if vm.Wanted {
		told.Spec.VM.State = v1.Running
	}
	s := &told.Status
	s.Phase, s.Reason, s.Message = v1.Phase(vm.State), vm.Reason, vm.Message
	for _, c := range vm.Conditions {
		s.Conditions = append(s.Conditions, metav1.Condition{
			Type: c.Type, Status: metav1.ConditionStatus(c.Status), Reason: c.Reason, Message: c.Message,
			LastTransitionTime: metav1.NewTime(c.Since),
		})
	}
	for _, c := range vm.RestartAwaitingChanges {
		s.RestartAwaitingChanges = append(s.RestartAwaitingChanges, v1.RestartAwaitingChange{
			Operation: c.Operation, Path: c.Path, CurrentValue: rawExtension(c.CurrentValue),
			DesiredValue: rawExtension(c.DesiredValue),
		})
	}
	if err := printWhy(cmd.OutOrStdout(), told, nil, time.Now()); err != nil {
		return err
	}
	for _, p := range vm.Problems {
		if err := cli.WriteLine(cmd.OutOrStdout(), cli.Printable(strings.TrimSpace(p.Path+" "+p.Message))); err != nil {
			return err
		}
	}
	return nil
}

// rawExtension returns a value in the form used in a resource.
func rawExtension(value any) *runtime.RawExtension {
	text, err := json.Marshal(value)
	if value == nil || err != nil {
		return nil
	}
	return &runtime.RawExtension{Raw: text}
}

// resizeVM changes the CPUs or the RAM of the guest.
func (m *manager) resizeVM(cmd *cobra.Command, args []string, cpus *int64, ram, form string, w waiting) error {
	name, _ := splitName(args)
	wanted := map[string]any{}
	if cpus != nil {
		wanted["cpus"] = *cpus
	}
	var bytes int64
	if ram != "" {
		q := resource.MustParse(ram) // checked before
		bytes = q.Value() >> 20 << 20
		wanted["ram"] = strconv.FormatInt(bytes>>20, 10) + " MiB"
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	ctx, cancel := w.waitContext(cmd.Context())
	defer cancel()
	if err := m.doRequest(ctx, http.MethodPatch, m.vmURL(name), body, nil); err != nil {
		return err
	}
	vm, err := m.getVM(ctx, name)
	if err == nil && w.wait {
		vm, err = m.awaitVM(ctx, name, func(vm *seen) (bool, error) {
			if vm == nil {
				return false, errors.New("the VM has been deleted meanwhile")
			}
			return !vm.State.Up() || (cpus == nil || vm.CPUs.Now == *cpus) && (ram == "" || vm.RAM.Now == bytes), nil
		})
	}
	if err != nil {
		return err
	}
	return printDone(cmd, form, vm, vmKind, name, "resized")
}

// insertMedium changes the medium in a drive.
func (m *manager) insertMedium(cmd *cobra.Command, args []string, drive int, image, form, done string) error {
	name, _ := splitName(args)
	vm, err := m.getVM(cmd.Context(), name)
	if err != nil {
		return err
	}
	const prefix = "drive "
	var places []int
	for _, d := range vm.Drives {
		if place, err := strconv.Atoi(strings.TrimPrefix(d.Name, prefix)); err == nil {
			places = append(places, place)
		}
	}
	if err := chooseDrive(name, places, &drive); err != nil {
		return err
	}
	body, err := json.Marshal(map[string]string{"medium": image})
	if err != nil {
		return err
	}
	address := m.vmURL(name, "drives", prefix+strconv.Itoa(drive))
	if err := m.doRequest(cmd.Context(), http.MethodPut, address, body, nil); err != nil {
		return err
	}
	return printDone(cmd, form, vm, vmKind, name, done)
}

// createVM creates a VM, and starts it if its definition requests that.
func (m *manager) createVM(cmd *cobra.Command, vm *v1.VirtualMachine, dry bool, form string, w waiting) error {
	start := vm.Spec.StateIsFree() && vm.Spec.DesiredState() == v1.Running
	if vm.Spec.StateIsFree() {
		vm.Spec.VM.State = v1.Stopped
	}
	text, err := yaml.Marshal(vm)
	if err != nil {
		return fmt.Errorf("encode the definition: %w", err)
	}
	ctx, cancel := w.waitContext(cmd.Context())
	defer cancel()
	address := m.vmURL(vm.Name, "definition")
	if dry {
		err := m.doRequest(ctx, http.MethodPut, address+"?dryRun=true", text, nil, "If-None-Match", "*")
		if err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, "created (server dry run)")
	}
	if err := m.doRequest(ctx, http.MethodPut, address, text, nil, "If-None-Match", "*"); err != nil {
		return err
	}
	if start {
		return m.carryOutAction(cmd, []string{vm.Name}, fleet.Start, form, "created", w)
	}
	made, err := m.getVM(ctx, vm.Name)
	if err != nil {
		return err
	}
	return printDone(cmd, form, made, vmKind, vm.Name, "created")
}

// deleteVM deletes a VM and prints what remains.
func (m *manager) deleteVM(cmd *cobra.Command, args []string, disks bool, form string, w waiting) error {
	if disks {
		return cli.UsageError{Err: errors.New("--disks: the manager keeps disks; delete their claims with kubectl")}
	}
	name, _ := splitName(args)
	ctx, cancel := w.waitContext(cmd.Context())
	defer cancel()
	vm, err := m.getVM(ctx, name)
	if err != nil {
		return err
	}
	var stays struct{ Left []string }
	if err := m.doRequest(ctx, http.MethodDelete, m.vmURL(name), nil, &stays); err != nil {
		return err
	}
	for _, what := range stays.Left {
		cmd.PrintErrln("stays:", cli.Printable(what))
	}
	if w.wait {
		if _, err := m.awaitVM(ctx, name, func(now *seen) (bool, error) {
			return now == nil || now.UID != vm.UID, nil
		}); err != nil {
			return err
		}
	}
	return printDone(cmd, form, vm, vmKind, name, "deleted")
}

// someNames returns the names of the first VMs, or an empty list if they can't be read.
func (m *manager) someNames(ctx context.Context) (names []string) {
	var list struct{ Items []seen }
	if m == nil || m.doRequest(ctx, http.MethodGet, strings.TrimSuffix(m.vmURL(""), "/"), nil, &list) != nil {
		return nil
	}
	for _, vm := range list.Items {
		names = append(names, vm.Name)
	}
	return names
}
