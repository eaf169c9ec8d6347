package objects

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
)

// FuzzConfig proves that the runner's file is readable and has the resource's values, for any resource, even one that
// an API server would reject. It doesn't check whether the values are sensible.
func FuzzConfig(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*every*.yaml"))
	require.NoError(f, err)
	more, err := filepath.Glob(filepath.Join("testdata", "*.vm.yaml"))
	require.NoError(f, err)
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		require.NoError(f, err)
		object, err := yaml.YAMLToJSON(text)
		require.NoError(f, err)
		f.Add(object)
	}
	for _, text := range []string{
		`{"metadata":{"name":"on"},"spec":{"vm":{"cpuModel":"a: b","rtcBase":"0x10","networks":[{},{"user":{"net":"\u0000\u2028é"}}]}}}`,
		`{"metadata":{"name":"1.0"},"spec":{"cloudInit":{"userData":{"a":{"b":[1e9,"1e9",null,"~"]},"":0}},"vm":{"options":{"a":[[],{}],"yes":1.0,"=":"<<"}}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var vm v1.VirtualMachine
		if json.Unmarshal(text, &vm) != nil {
			return
		}
		want, err := machineSpec(&vm, nil)
		if err != nil {
			return
		}
		filterTaps(want.Network, nil)
		written, err := Config(&vm, Given{})
		if err != nil {
			return
		}
		var file struct {
			Runner config.Config `yaml:"/Runner"`
		}
		_, err = yamlfile.Decode("config.yaml", written, &file)
		require.NoError(t, err, "%s", written)
		require.Equal(t, want, file.Runner.VM, "%s", written)
		require.Equal(t, vm.Spec.GuestStops(), file.Runner.GuestShutdownStops)
		require.Equal(t, resetCounter(&vm), file.Runner.ResetCounter)
	})
}
