package class_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/vm/class"
)

// A VM must not set a locked option to another value than its class.
func TestLockedOptions(t *testing.T) {
	t.Parallel()
	for vm, want := range map[string]string{
		`{vm: {}}`:                    "",
		`{vm: {options: {other: 1}}}`: "",
		`{vm: {options: {env: prod, deep: {a: [1]}}}}`: "",
		`{vm: {options: {env: dev}}}`: `spec.vm.options.env is "dev": class web locks it to "prod"; ` +
			`remove it from the VM`,
		`{vm: {options: {env: null}}}`:    `spec.vm.options.env is null: class web locks it to "prod"; remove it from the VM`,
		`{vm: {options: {free: x}}}`:      `spec.vm.options.free is "x": class web locks it to the default of the VM type`,
		`{vm: {options: {deep: {a: 1}}}}`: `spec.vm.options.deep is {"a":1}: class web locks it to {"a":[1]}`,
		`{vm: {options: {env: 1, free: x}}}`: `spec.vm.options.env is 1: class web locks it to "prod"; remove it from the ` +
			`VM; spec.vm.options.free is "x"`,
	} {
		c := read[v1.VirtualMachineClass](t, `{cpu: {type: Host}, lockedOptions: [env, free, deep],
			defaults: {options: {env: prod, deep: {a: [1]}, other: 2}}}`)
		machine := read[v1.VirtualMachine](t, vm)
		if got := class.LockedFault(&c, &machine); want == "" {
			require.Empty(t, got, vm)
		} else {
			require.Contains(t, got, want, vm)
		}
	}
}
