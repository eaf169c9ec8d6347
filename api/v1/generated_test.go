package v1_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/test/tier"
)

// The generated files match the current types.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	dir := t.TempDir()
	for _, what := range [][]string{
		{"object", "output:object:dir=" + dir},
		{"crd:maxDescLen=400", "output:crd:dir=" + dir},
	} {
		args := append([]string{"tool", "-modfile=../../tools/go.mod", "controller-gen", "paths=."}, what...)
		out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	out, err := exec.CommandContext(t.Context(), "sed", "-i", "-f", "crd.sed",
		filepath.Join(dir, "vmoperator.jdrupes.org_vms.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_virtualmachineclasses.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_virtualdisks.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_virtualimages.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_clustervirtualimages.yaml"),
		filepath.Join(dir, "vmoperator.jdrupes.org_vmpools.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	kept, err := filepath.Glob("../../deploy/crds/*.yaml")
	require.NoError(t, err)
	made, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	require.NoError(t, err)
	require.Len(t, kept, len(made))
	for _, kept := range append(kept, "zz_generated.deepcopy.go") {
		want, err := os.ReadFile(filepath.Join(dir, filepath.Base(kept)))
		require.NoError(t, err)
		got, err := os.ReadFile(kept)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is out of date: make generate", kept)
	}
}

// A deep copy of a value of the API is equal to the value and shares no memory with it.
func TestCopiesShareNothing(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, v1.AddToScheme(scheme))
	types := map[reflect.Type]bool{}
	for kind, of := range scheme.KnownTypes(v1.GroupVersion()) {
		if !isOurs(of) {
			continue // options of requests, present in each group
		}
		collectTypes(of, types)
		object := reflect.New(of)
		fill(object.Elem())
		require.Equal(t, object.Interface(), object.Interface().(runtime.Object).DeepCopyObject(), kind)
		require.Nil(t, reflect.Zero(object.Type()).Interface().(runtime.Object).DeepCopyObject(), kind)
	}
	require.Greater(t, len(types), 100)
	for of := range types {
		value := reflect.New(of)
		if !value.MethodByName("DeepCopy").IsValid() {
			continue
		}
		copied := func(of reflect.Value) reflect.Value { return of.MethodByName("DeepCopy").Call(nil)[0] }
		require.True(t, copied(reflect.Zero(value.Type())).IsNil(), of)
		require.Equal(t, value.Interface(), copied(value).Interface(), "an empty %s", of)
		fill(value.Elem())
		before, err := json.Marshal(value.Interface())
		require.NoError(t, err)
		other := copied(value)
		require.Equal(t, value.Interface(), other.Interface(), of)
		spoil(other.Elem())
		require.Equal(t, of.NumField() == 0, reflect.DeepEqual(value.Interface(), other.Interface()), of)
		after, err := json.Marshal(value.Interface())
		require.NoError(t, err)
		require.Equal(t, string(before), string(after), "%s shares something with its copy", of)
	}
}

func isOurs(of reflect.Type) bool { return of.PkgPath() == reflect.TypeFor[v1.VM]().PkgPath() }

// collectTypes collects the structs of the API that a type contains.
func collectTypes(of reflect.Type, types map[reflect.Type]bool) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		collectTypes(of.Elem(), types)
	case reflect.Struct:
		if !isOurs(of) || types[of] {
			return
		}
		types[of] = true
		for i := range of.NumField() {
			collectTypes(of.Field(i).Type, types)
		}
	}
}

// fill sets every settable part of a value.
func fill(v reflect.Value) { change(v, "a", 1, resource.MustParse("1Gi")) }

// spoil changes every reachable part of a value in place.
func spoil(v reflect.Value) { change(v, "b", 2, resource.MustParse("2Gi")) }

func change(v reflect.Value, text string, number int, size resource.Quantity) {
	again := func(v reflect.Value) { change(v, text, number, size) }
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		again(v.Elem())
	case reflect.Slice:
		switch {
		case v.Type().Elem().Kind() == reflect.Uint8 && v.IsNil():
			v.SetBytes([]byte(`"` + text + `"`)) // JSON
		case v.Type().Elem().Kind() == reflect.Uint8:
			v.Index(1).SetUint(uint64(text[0]))
		case v.IsNil():
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fallthrough
		default:
			again(v.Index(0))
		}
	case reflect.Map:
		element := reflect.New(v.Type().Elem()).Elem()
		key := reflect.ValueOf("key").Convert(v.Type().Key())
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		} else {
			element.Set(v.MapIndex(key))
		}
		again(element)
		v.SetMapIndex(key, element)
	case reflect.Struct:
		switch v.Addr().Interface().(type) {
		case *resource.Quantity:
			v.Set(reflect.ValueOf(size))
		case *metav1.Time:
			v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(int64(number), 0).UTC())))
		default:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					again(v.Field(i))
				}
			}
		}
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(number == 1)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(number))
	}
}
