package objects_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/objects"
	"vmop/runner/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// definition reads a VM as the API server has it: with a uid and a generation.
func definition(t *testing.T, file string) *v1.VirtualMachine {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	vm := &v1.VirtualMachine{}
	require.NoError(t, yaml.UnmarshalStrict(text, vm))
	vm.UID, vm.Generation = "0d5c6f0e-0000-4000-8000-000000000001", 3
	return vm
}

// settings are those of the golden files.
func settings() objects.Settings {
	s := objects.DefaultSettings()
	s.Version, s.Image = "1.2.3", "example.test/vmop/runner:1.2.3"
	return s
}

// all returns the objects of a VM of which nothing exists, in the order in which
// they are made.
func all(t *testing.T, vm *v1.VirtualMachine, s objects.Settings) []any {
	t.Helper()
	configMap, err := objects.ConfigMap(vm, s)
	require.NoError(t, err)
	made := []any{configMap}
	secret, missing := objects.DisplaySecretName(vm, nil)
	if missing {
		password, err := objects.DisplaySecret(vm, s, strings.NewReader(strings.Repeat("x", 16)))
		require.NoError(t, err)
		made = append(made, password)
	}
	claims, err := objects.Claims(vm, s, map[string]metav1.ObjectMeta{})
	require.NoError(t, err)
	for _, c := range claims {
		made = append(made, c.Apply)
	}
	set, err := objects.StatefulSet(vm, s, claims, secret, 1)
	require.NoError(t, err)
	made = append(made, set)
	service, err := objects.Service(vm, s)
	require.NoError(t, err)
	if service != nil {
		made = append(made, service)
	}
	return made
}

func TestObjects(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "*.vm.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".vm.yaml"), func(t *testing.T) {
			t.Parallel()
			vm := definition(t, file)
			text, err := objects.Config(vm)
			require.NoError(t, err)
			_, warnings, err := config.Parse("config.yaml", text)
			require.NoError(t, err)
			require.Empty(t, warnings)
			var documents []string
			for _, object := range all(t, vm, settings()) {
				document, err := yaml.Marshal(object)
				require.NoError(t, err)
				documents = append(documents, string(document))
			}
			got, golden := strings.Join(documents, "---\n"), strings.TrimSuffix(file, ".vm.yaml")+".objects.yaml"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), got, "go test ./manager/objects -update writes what is made now")
		})
	}
}
