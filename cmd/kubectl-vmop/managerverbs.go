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
	"vmop/cli"
	"vmop/manager/fleet"
)

// Verbs through the manager.

// answered reports whether an error is an answer of the manager with a code.
func answered(err error, code int) bool {
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

// act carries out an action, unless the VM is already as it would be, and waits for its effect if that is wanted.
func (m *manager) act(cmd *cobra.Command, args []string, a fleet.Action, form, done string, w waiting) error {
	name, _ := split(args)
	ctx, cancel := w.context(cmd.Context())
	defer cancel()
	vm, err := m.vm(ctx, name)
	if err != nil {
		return err
	}
	reached := followed(a, vm.Operations, achieved(a, vm.Started))
	if is, err := reached(vm); !is || err != nil || repeated(a) {
		if err := m.do(ctx, http.MethodPost, m.at(name, string(a)), nil, nil); err != nil {
			return err
		}
	}
	if w.wait {
		vm, err = m.await(ctx, name, reached)
	} else {
		vm, err = m.vm(ctx, name)
	}
	if err != nil {
		return err
	}
	return printDone(cmd, form, vm, vmKind, name, done)
}

// repeated reports whether an action has an effect on a VM that is running, however often it is done.
func repeated(a fleet.Action) bool { return restarts(a) || a == fleet.Reset }

func restarts(a fleet.Action) bool { return a == fleet.Restart || a == fleet.ForceRestart }

// operationOf returns the type of the operation that an action is.
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

// followed is the goal of an action, which can't be reached any more when an operation that is the action, and
// wasn't there before, has failed.
func followed(a fleet.Action, before []fleet.Operation, goal func(*seen) (bool, error)) func(*seen) (bool, error) {
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

// achieved is the goal of an action on a VM whose guest began to run at a time.
func achieved(a fleet.Action, started time.Time) func(*seen) (bool, error) {
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
		return vm.State == fleet.Running && (!restarts(a) || vm.Started.After(started)), nil
	}
}

// guest is flags.guest.
func (m *manager) guest(cmd *cobra.Command, args []string, up bool) (guest, error) {
	name, _ := split(args)
	vm, err := m.vm(cmd.Context(), name)
	if err != nil {
		return guest{}, err
	}
	informed := ""
	if up && !vm.State.Up() {
		vm, err = m.await(cmd.Context(), name, func(vm *seen) (bool, error) {
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

// why prints what explains the state of a VM.
func (m *manager) why(cmd *cobra.Command, args []string) error {
	name, _ := split(args)
	vm, err := m.vm(cmd.Context(), name)
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
			Operation: c.Operation, Path: c.Path, CurrentValue: raw(c.CurrentValue), DesiredValue: raw(c.DesiredValue),
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

// raw returns a value as a resource has it.
func raw(value any) *runtime.RawExtension {
	text, err := json.Marshal(value)
	if value == nil || err != nil {
		return nil
	}
	return &runtime.RawExtension{Raw: text}
}

// resize gives the guest other CPUs or RAM.
func (m *manager) resize(cmd *cobra.Command, args []string, cpus *int64, ram, form string, w waiting) error {
	name, _ := split(args)
	wanted := map[string]any{}
	if cpus != nil {
		wanted["cpus"] = *cpus
	}
	var bytes int64
	if ram != "" {
		q := resource.MustParse(ram) // it was checked
		bytes = q.Value() >> 20 << 20
		wanted["ram"] = strconv.FormatInt(bytes>>20, 10) + " MiB"
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	ctx, cancel := w.context(cmd.Context())
	defer cancel()
	if err := m.do(ctx, http.MethodPatch, m.at(name), body, nil); err != nil {
		return err
	}
	vm, err := m.vm(ctx, name)
	if err == nil && w.wait {
		vm, err = m.await(ctx, name, func(vm *seen) (bool, error) {
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

// insert changes the medium in a drive.
func (m *manager) insert(cmd *cobra.Command, args []string, drive int, image, form, done string) error {
	name, _ := split(args)
	vm, err := m.vm(cmd.Context(), name)
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
	address := m.at(name, "drives", prefix+strconv.Itoa(drive))
	if err := m.do(cmd.Context(), http.MethodPut, address, body, nil); err != nil {
		return err
	}
	return printDone(cmd, form, vm, vmKind, name, done)
}

// create makes a VM, and starts it if its definition says so.
func (m *manager) create(cmd *cobra.Command, vm *v1.VirtualMachine, dry bool, form string, w waiting) error {
	start := vm.Spec.StateIsFree() && vm.Spec.DesiredState() == v1.Running
	if vm.Spec.StateIsFree() {
		vm.Spec.VM.State = v1.Stopped
	}
	text, err := yaml.Marshal(vm)
	if err != nil {
		return fmt.Errorf("encode the definition: %w", err)
	}
	ctx, cancel := w.context(cmd.Context())
	defer cancel()
	address := m.at(vm.Name, "definition")
	if dry {
		err := m.do(ctx, http.MethodPut, address+"?dryRun=true", text, nil, "If-None-Match", "*")
		if err != nil {
			return err
		}
		return printDone(cmd, form, vm, vmKind, vm.Name, "created (server dry run)")
	}
	if err := m.do(ctx, http.MethodPut, address, text, nil, "If-None-Match", "*"); err != nil {
		return err
	}
	if start {
		return m.act(cmd, []string{vm.Name}, fleet.Start, form, "created", w)
	}
	made, err := m.vm(ctx, vm.Name)
	if err != nil {
		return err
	}
	return printDone(cmd, form, made, vmKind, vm.Name, "created")
}

// remove deletes a VM, and says what stays.
func (m *manager) remove(cmd *cobra.Command, args []string, disks bool, form string, w waiting) error {
	if disks {
		return cli.UsageError{Err: errors.New("--disks: the manager leaves them; delete their claims by kubectl")}
	}
	name, _ := split(args)
	ctx, cancel := w.context(cmd.Context())
	defer cancel()
	vm, err := m.vm(ctx, name)
	if err != nil {
		return err
	}
	var stays struct{ Left []string }
	if err := m.do(ctx, http.MethodDelete, m.at(name), nil, &stays); err != nil {
		return err
	}
	for _, what := range stays.Left {
		cmd.PrintErrln("stays:", cli.Printable(what))
	}
	if w.wait {
		if _, err := m.await(ctx, name, func(now *seen) (bool, error) {
			return now == nil || now.UID != vm.UID, nil
		}); err != nil {
			return err
		}
	}
	return printDone(cmd, form, vm, vmKind, name, "deleted")
}

// names returns the names of the first VMs, none if they can't be read.
func (m *manager) names(ctx context.Context) (names []string) {
	var list struct{ Items []seen }
	if m == nil || m.do(ctx, http.MethodGet, strings.TrimSuffix(m.at(""), "/"), nil, &list) != nil {
		return nil
	}
	for _, vm := range list.Items {
		names = append(names, vm.Name)
	}
	return names
}
