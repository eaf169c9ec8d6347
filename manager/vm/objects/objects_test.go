package objects_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/manager/vm/objects"
	"vmop/runner/config"
)

var update = flag.Bool("update", false, "write the golden files anew")

// settings returns the settings of a manager without a configuration.
func settings() objects.Settings {
	s := objects.DefaultSettings()
	s.Version, s.Image, s.Trust.Bridges = "1.2.3", "example.test/vmop/runner:1.2.3", []string{"*"}
	return s
}

// settingsOf returns the settings for the golden files.
func settingsOf(name string) objects.Settings {
	s := settings()
	switch name {
	case "bridged":
		s.KVMResource = "devices.kubevirt.io/kvm"
		s.DataStorageClass = new("rook-ceph-block")
		s.VMTypes = "vm-types"
		s.LoggingProperties = ".level=INFO"
	case "placed":
		s.LoadBalancer = &objects.ServiceMetadata{
			Labels:      map[string]string{"theirs": "yes", "all": "yes"},
			Annotations: map[string]string{"metallb.io/loadBalancerIPs": "192.0.2.1", "metallb.io/address-pool": "vms"},
		}
		s.LoggingProperties = ".level=INFO"
	}
	return s
}

// all returns all objects of a new VM, in the order of their creation.
func all(t *testing.T, vm *v1.VirtualMachine, s objects.Settings) []any {
	t.Helper()
	configMap, err := objects.ConfigMap(vm, s, objects.Given{}, "")
	require.NoError(t, err)
	made := []any{configMap}
	secret, missing := objects.DisplaySecretName(vm, nil)
	if missing {
		password, err := objects.DisplaySecret(vm, s, strings.NewReader(strings.Repeat("x", 16)))
		require.NoError(t, err)
		made = append(made, password)
	}
	claims, err := objects.Claims(vm, s, objects.Existing{})
	require.NoError(t, err)
	for _, c := range claims {
		made = append(made, c.Apply)
	}
	set, err := objects.StatefulSet(vm, s, claims, secret, 1, false)
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
			vm := podDefinition(t, file)
			s := settingsOf(vm.Name)
			text, err := objects.Config(vm, objects.Given{})
			require.NoError(t, err)
			_, warnings, err := config.Parse("config.yaml", text)
			require.NoError(t, err)
			require.Empty(t, warnings)
			var documents []string
			for _, object := range all(t, vm, s) {
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
			require.Equal(t, string(want), got, "go test ./manager/vm/objects -update writes what is made now")
		})
	}
}
