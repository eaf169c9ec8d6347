package objects_test

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/runner/config"
)

// notForTheMachine lists the fields of spec.vm that the runner doesn't use, with their actual user.
var notForTheMachine = map[string]string{
	"state":                  "manager/vm/controller: the number of replicas",
	"display.spice.server":   "not used: viewers connect through the manager",
	"display.spice.proxyUrl": "not used: viewers connect through the manager",
	"disks[].volumeClaimTemplate.metadata.labels":                "the claim",
	"disks[].volumeClaimTemplate.metadata.annotations":           "the claim",
	"disks[].volumeClaimTemplate.spec.accessModes":               "the claim",
	"disks[].volumeClaimTemplate.spec.resources.limits":          "the claim",
	"disks[].volumeClaimTemplate.spec.selector":                  "the claim",
	"disks[].volumeClaimTemplate.spec.volumeName":                "the claim",
	"disks[].volumeClaimTemplate.spec.storageClassName":          "the claim",
	"disks[].volumeClaimTemplate.spec.dataSource":                "the claim",
	"disks[].volumeClaimTemplate.spec.dataSourceRef":             "the claim",
	"disks[].volumeClaimTemplate.spec.volumeAttributesClassName": "the claim",
}

// notForThePod lists the fields that don't affect any object, with the reason.
var notForThePod = map[string]string{
	"vm.state":                        "manager/vm/controller: the number of replicas",
	"vm.display.spice.server":         "not used: viewers connect through the manager",
	"vm.display.spice.proxyUrl":       "not used: viewers connect through the manager",
	"permissions":                     "the web GUI",
	"evictionStrategy":                "manager/vm/decide: whether there is a budget",
	"migration.copyDisks":             "manager/operation/migration: whether disks are copied",
	"disruptions.restartApprovalMode": "manager/vm/decide: who restarts the VM",
	"virtualMachineIPAddressName":     "manager/addresses: the lease, which is the tap's",
	"virtualMachineClassName":         "manager/vm/class: what the class gives the VM is in its other fields",
	"runnerTemplate.source":           "manager/vm/controller: another than VM-Operator's own needs a vmType",
	"runnerTemplate.update":           "not used",
	"pools":                           "the web GUI",
	"vmType.imagePullSecret.name":     "manager/vm/fetch: how the registry is reached",
	"vmType.caBundle":                 "manager/vm/fetch: how the registry is reached",
	"dataSource.kind":                 "there is one kind",
	"dataSource.name":                 "the claims, if they are made of it",
}

// Each field of the API affects the objects of a VM. If you add a field, add two values with different results to
// testdata, or list it above with the reason.
func TestEveryFieldArrives(t *testing.T) {
	t.Parallel()
	one := podDefinition(t, filepath.Join("testdata", "every-field.yaml"))
	other := podDefinition(t, filepath.Join("testdata", "every-other-field.yaml"))
	for _, vm := range []*v1.VirtualMachine{one, other} {
		text, err := objects.Config(vm, objects.Given{})
		require.NoError(t, err)
		_, _, err = config.Parse("config.yaml", text)
		require.NoError(t, err)
	}
	values, others := leaves(t, one), leaves(t, other)
	paths := map[string]string{} // from the API's paths to an example
	for path := range mergeKeys(values, others) {
		if !reflect.DeepEqual(values[path], others[path]) {
			paths[anyIndex(path)] = path
		}
	}
	known := slices.Sorted(apiPaths("", reflect.TypeFor[v1.VirtualMachineSpec]()))
	require.Equal(t, known, slices.Sorted(maps.Keys(paths)),
		"every-field.yaml and every-other-field.yaml have two values of each field")
	before, beforeOther := made(t, one), made(t, other)
	for path, example := range paths {
		after, afterOther := made(t, changed(t, one, example, others[example])),
			made(t, changed(t, other, example, values[example]))
		used := before.all != after.all || beforeOther.all != afterOther.all
		_, says := notForThePod[path]
		require.Equal(t, !says, used, "something is made of spec.%s", path)
		if inVM, is := strings.CutPrefix(path, "vm."); is {
			_, says := notForTheMachine[inVM]
			used := before.config != after.config || beforeOther.config != afterOther.config
			require.Equal(t, !says, used, "spec.%s is in the runner's file", path)
		}
	}
}

// products are the objects of a VM as text.
type products struct{ config, all string }

func made(t *testing.T, vm *v1.VirtualMachine) products {
	t.Helper()
	s := settings()
	s.LoadBalancer = &objects.ServiceMetadata{}
	text, err := objects.Config(vm, objects.Given{})
	require.NoError(t, err)
	everything, err := json.Marshal(all(t, vm, s))
	require.NoError(t, err)
	return products{string(text), string(everything)}
}

// apiPaths yields the fields of the API that a user can set. A value with another package's type counts as one field.
func apiPaths(path string, of reflect.Type) func(func(string) bool) {
	return func(yield func(string) bool) {
		for of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		switch {
		case of.Kind() == reflect.Slice && of.Elem().PkgPath() == reflect.TypeFor[v1.VM]().PkgPath() &&
			of.Elem().Kind() == reflect.Struct && path != "permissions":
			apiPaths(path+"[]", of.Elem())(yield)
		case of.Kind() == reflect.Struct && of.PkgPath() == reflect.TypeFor[v1.VM]().PkgPath():
			for i := range of.NumField() {
				name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
				inner := strings.TrimPrefix(path+"."+name, ".")
				if name == "" { // inline
					inner = path
				}
				for sub := range apiPaths(inner, of.Field(i).Type) {
					if !yield(sub) {
						return
					}
				}
			}
		default:
			yield(path)
		}
	}
}

// leaves returns the values of a spec by path, to the same depth as apiPaths.
func leaves(t *testing.T, vm *v1.VirtualMachine) map[string]any {
	t.Helper()
	text, err := json.Marshal(vm.Spec)
	require.NoError(t, err)
	var spec map[string]any
	require.NoError(t, json.Unmarshal(text, &spec))
	known := slices.Collect(apiPaths("", reflect.TypeFor[v1.VirtualMachineSpec]()))
	found := map[string]any{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		if slices.Contains(known, anyIndex(path)) {
			found[path] = value
			return
		}
		switch v := value.(type) {
		case map[string]any:
			for key, element := range v {
				walk(strings.TrimPrefix(path+"."+key, "."), element)
			}
		case []any:
			for i, element := range v {
				walk(path+"["+strconv.Itoa(i)+"]", element)
			}
		}
	}
	walk("", spec)
	return found
}

func mergeKeys(a, b map[string]any) map[string]any {
	both := maps.Clone(a)
	maps.Copy(both, b)
	return both
}

func anyIndex(path string) string {
	return regexp.MustCompile(`\[[0-9]+\]`).ReplaceAllString(path, "[]")
}

// changed returns a copy of a VM with another value in one field, or without the field.
func changed(t *testing.T, vm *v1.VirtualMachine, path string, value any) *v1.VirtualMachine {
	t.Helper()
	text, err := json.Marshal(vm.Spec)
	require.NoError(t, err)
	var at any
	require.NoError(t, json.Unmarshal(text, &at))
	spec := at
	keys := strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	for i, key := range keys {
		last := i == len(keys)-1
		switch section := at.(type) {
		case []any:
			index, err := strconv.Atoi(key)
			require.NoError(t, err)
			at = section[index]
		case map[string]any:
			switch {
			case last && value == nil:
				delete(section, key)
			case last:
				section[key] = value
			case section[key] == nil:
				section[key] = map[string]any{}
			}
			at = section[key]
		}
	}
	text, err = json.Marshal(spec)
	require.NoError(t, err)
	next := vm.DeepCopy()
	next.Spec = v1.VirtualMachineSpec{}
	require.NoError(t, json.Unmarshal(text, &next.Spec))
	return next
}
