package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/manager/web/fleet"
	"vmop/runner/config"
	"vmop/runner/machine/changes"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// changesByTime returns what a VM that is running takes over at once, and what awaits a restart: live tells them apart
// by their paths below spec.
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

// answerTime is how long a runner may take to say what it runs.
const answerTime = 5 * time.Second

// liveRules returns what reports whether a running VM takes over what a wanted definition changes at a path below
// spec. The rules of the plan that it runs with decide; while its runner can't be asked, those that its type has for
// the present definition.
func (f *Fleet) liveRules(ctx context.Context, name string, wanted *v1.VirtualMachine) (func(path string) bool, error) {
	vm, err := f.findVM(name)
	if err != nil {
		return nil, err
	}
	text, err := objects.Config(f.withClass(wanted, vm.pod), objects.Given{})
	if err != nil {
		return nil, err
	}
	cfg, _, err := config.Parse("spec", text)
	if err != nil {
		return nil, err
	}
	soon, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	made, err := f.runningPlan(soon, vm)
	if err != nil {
		made, err = f.opts.Types.Plan(ctx, vm.VirtualMachine)
	}
	if err != nil {
		made = &plan.Plan{} // nothing is known to be possible
	}
	return liveBy(made.Rules, cfg.VM.WithDefaults()), context.Cause(ctx)
}

// liveBy returns what live does, by the rules of a plan.
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
			"virtualMachineIPAddressName": // the machine's
			return itself[path] || byRule(names.Replace(path))
		}
		return !objects.NeedsPod(path)
	}
}
