package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "vmop/api/v1"
	"vmop/internal/printable"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/machine/changes"
	"vmop/runner/status/k8s"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// changesByTime splits the changes between two definitions: now takes effect while the VM is running, later needs a
// restart. live decides by the path below spec.
func changesByTime(before, after *document, live func(path string) bool) (now, later []fleet.Change) {
	before.hideSecrets()
	after.hideSecrets()
	var walk func(path string, a, b any)
	walk = func(path string, a, b any) {
		keys, items := keysOf(a, b)
		for _, key := range keys {
			one, _ := a.(map[string]any)
			other, _ := b.(map[string]any)
			walk(path+"."+key, one[key], other[key])
		}
		for i := range items {
			walk(fmt.Sprintf("%s[%d]", path, i), itemAt(a, i), itemAt(b, i))
		}
		if keys != nil || items > 0 {
			return
		}
		change := fleet.Change{
			Path: strings.TrimPrefix(path, "spec."), Operation: "replace", CurrentValue: a, DesiredValue: b,
		}
		switch {
		case a == nil:
			change.Operation = "add"
		case b == nil:
			change.Operation = "remove"
		}
		switch {
		case change.Now() == change.Then():
		case live(change.Path):
			now = append(now, change)
		default:
			later = append(later, change)
		}
	}
	walk("spec", before.Spec, after.Spec)
	return now, later
}

// answerTime is how long to wait for the running plan from a runner, and for its forecast, which evaluates the VM type.
const answerTime = 15 * time.Second

// effect decides when a running VM takes over a change of its definition.
type effect struct {
	// live reports whether a change at a path below spec takes effect while the VM is running.
	live func(path string) bool
	// refused is the reason why the runner would refuse the definition; "" if it would accept it.
	refused string
}

// effectOf returns the effect of another definition, as the runner forecasts it. A runner of an earlier version has no
// forecast; the rules of the running plan then decide. If the runner doesn't answer, the rules for the current
// definition decide.
func (f *Fleet) effectOf(ctx context.Context, name string, wanted *v1.VirtualMachine) (e effect, err error) {
	vm, err := f.findVM(name)
	if err != nil {
		return e, err
	}
	text, err := objects.Config(f.withClass(wanted, vm.pod), objects.Given{})
	if err != nil {
		return e, err
	}
	cfg, _, err := config.Parse("spec", text)
	if err != nil {
		return e, err
	}
	soon, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	made, err := f.runningPlan(soon, vm)
	if err != nil {
		made, err = f.opts.Types.Plan(ctx, vm.VirtualMachine)
	}
	if err != nil {
		made = &plan.Plan{} // assumes that every change needs a restart
	}
	e.live = liveBy(made.Rules, cfg.VM.WithDefaults())
	if runner, err := f.queryClient(vm); err == nil {
		if expected, err := runner.Forecast(soon, text); err == nil {
			e.refused = printable.Line(k8s.InResource(expected.Fault))
			e.live = forecastBy(expected, e.live)
		}
	}
	return e, context.Cause(ctx)
}

// forecastBy returns the function live of an effect from a runner's forecast. byRules decides about paths outside of
// the machine, and about disks, because the runner doesn't know their claims.
func forecastBy(f control.Forecast, byRules func(path string) bool) func(path string) bool {
	awaiting := k8s.Awaiting(f.Later)
	return func(path string) bool {
		if f.Fault != "" || !strings.HasPrefix(path, "vm.") || strings.HasPrefix(path, "vm.disks[") {
			return byRules(path)
		}
		return !awaiting(path) && !objects.NeedsPod(path)
	}
}

// liveBy returns the function live of an effect from the rules of a plan.
func liveBy(rules plan.Rules, wanted vmspec.Spec) func(path string) bool {
	byRule, itself := changes.Live(rules, wanted), map[string]bool{
		"vm.state": true, "vm.powerdownTimeout": true, "vm.display.loggedInUser": true,
	}
	for _, r := range rules {
		if disk, is := r.(plan.Disk); is {
			itself[fmt.Sprintf("vm.disks[%d].volumeClaimTemplate.spec.resources.requests.storage", disk.Drive)] = true
		}
	}
	names := strings.NewReplacer("vm.networks[", "vm.network[", "].user.", "].", "vm.disks[", "vm.drives[",
		"].cdrom.image", "].file")
	return func(path string) bool {
		switch field, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), "."); field {
		case "vm", "vmType", "cloudInit", "provisioning", "blockDeviceRefs", "dataSource",
			"virtualMachineIPAddressName": // fields of the machine
			return itself[path] || byRule(names.Replace(path))
		}
		return !objects.NeedsPod(path)
	}
}
