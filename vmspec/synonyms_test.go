package vmspec

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
)

func TestKeysMeantBy(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][]string{
		"vm.ram":                       {"vm.currentRam", "vm.maximumRam"},
		"memory":                       {"vm.currentRam", "vm.maximumRam"},
		"vm.Memory_Size":               {"vm.currentRam", "vm.maximumRam"},
		"vm.drives[3].path":            {"vm.drives[3].file"},
		"vm.network[1].ports[0].proto": {"vm.network[1].ports[0].protocol"},
		"vm.mac":                       {"vm.network[].mac"},
		"vm.user":                      {"cloudInit.userData"},
		"vm.display.ram":               nil,
		"vm.colour":                    nil,
		"":                             nil,
	} {
		require.Equal(t, want, KeysMeantBy(path), path)
	}
	for path, want := range map[string][]string{
		"spec.vm.ram":             {"spec.vm.currentRam", "spec.vm.maximumRam"},
		"spec.cpus":               {"spec.vm.currentCpus", "spec.vm.maximumCpus"},
		"spec.vm.drives":          {"spec.vm.disks"},
		"spec.vm.disks[2].size":   {"spec.vm.disks[2].volumeClaimTemplate"},
		"spec.vm.networks[0].mac": nil,
		"spec.vm.name":            {"metadata.name"},
		"spec.vm.machine":         nil,
		"spec.vm.running":         {"spec.runPolicy"},
		"status.ram":              nil,
	} {
		require.Equal(t, want, FieldsMeantBy(path), path)
	}
}

// Every key and field in the table exists.
func TestSynonymsAreOfKeys(t *testing.T) {
	t.Parallel()
	file := reflect.TypeFor[struct {
		VM        Spec   `yaml:"vm"`
		VMType    string `yaml:"vmType"`
		CloudInit struct {
			UserData string `yaml:"userData"`
		} `yaml:"cloudInit"`
	}]()
	for _, s := range synonyms() {
		require.True(t, hasKey(file, "yaml", s.in), s.in)
		for _, key := range strings.Fields(strings.TrimPrefix(s.keys, "-")) {
			require.True(t, hasKey(file, "yaml", key), key)
		}
		for _, word := range strings.Fields(s.words) {
			for _, field := range FieldsMeantBy("spec." + s.in + "." + word) {
				require.True(t, hasKey(reflect.TypeFor[v1.VirtualMachine](), "json", field), field)
			}
		}
	}
	require.False(t, hasKey(file, "yaml", "vm.drives[].path"))
}

// hasKey reports whether a struct with tags of this kind has a key at a path.
func hasKey(at reflect.Type, tag, path string) bool {
	for word := range strings.SplitSeq(path, ".") {
		for at.Kind() == reflect.Pointer || at.Kind() == reflect.Slice {
			at = at.Elem()
		}
		found := false
		for _, f := range reflect.VisibleFields(at) {
			name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
			if name == strings.TrimSuffix(word, "[]") {
				at, found = f.Type, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}
