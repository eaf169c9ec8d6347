package docs_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	apiv1 "vmop/api/v1"
)

// The page describes every field of the resource.
func TestVirtualMachinesHaveEveryField(t *testing.T) {
	t.Parallel()
	for title, of := range map[string]reflect.Type{
		"spec":    reflect.TypeFor[apiv1.VirtualMachineSpec](),
		"spec.vm": reflect.TypeFor[apiv1.VM](),
		"status":  reflect.TypeFor[apiv1.VirtualMachineStatus](),
	} {
		text := section(t, "reference/virtual-machines.md", title)
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			require.Contains(t, text, "`"+name+"`", "section %s", title)
		}
	}
}
