package manager

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/manager/addresses"
	"vmop/manager/vm/objects"
	"vmop/vmspec"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing")

// TestWhatUsersRead compares the user's view of each testdata/*.yaml with the *.txt file next to it.
func TestWhatUsersRead(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			_, _, err = Parse(filepath.Base(file), data)
			var faults yamlfile.Faults
			require.True(t, errors.As(err, &faults), "%v", err)
			got := faults.Excerpts()
			require.NotContains(t, got, "hunter2", "a password")

			golden := strings.TrimSuffix(file, ".yaml") + ".txt"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
				return
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err, "run go test with -update")
			require.Equal(t, string(want), got)
		})
	}
}

// Loggers that exist only in VM-Operator aren't an error.
func TestForeignLoggers(t *testing.T) {
	t.Parallel()
	_, warnings, err := Parse("f", []byte("\"/Manager/Controller/Reconciler\":\n  loggingProperties: |\n    .level=FINE\n    org.jgrapes.level=FINE\n"))
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, `f:2:22: /Manager/Controller/Reconciler.loggingProperties: line 2: no logger here corresponds to "org.jgrapes" `+
		`(there are org.jdrupes.vmoperator.runner.qemu, org.jdrupes.vmoperator)`, warnings[0].String())
}

// whole is a file with all effective keys, and the cluster's name.
const whole = `
"/Manager":
  clusterName: test
  "/Controller":
    namespace: vmop-dev
    "/Reconciler":
      runnerDataPvc: {storageClassName: local-path}
      cpuOvercommit: 4
      ramOvercommit: "1.5"
      loadBalancerService:
        labels: {team: blue}
        annotations: {example.org/Pool: "7"}
      loggingProperties: |
        .level=FINE
      image: {source: "example.org/runner:1", pullPolicy: Always}
      imageRepository: images
      vmTypesConfigMap: types
      kvmResource: devices.kubevirt.io/kvm
      vhostNetResource: vmop/vhost-net
      trustedImages: [registry.example/vmop/*, "example.org/runner:2"]
      trustedVMTypes: [ours, "*"]
      trustedVMTypeImages: [registry.example/types/*]
      trustedClaims: [runner-data-web-0]
      trustedURLs: [https://images.example/]
      refusePrivateAddresses: true
      allowedBridges: [br0, br-vms]
      unfilteredBridges: ["*"]
      operationsKept: 3
      operationsKeptFor: 600
      automaticRestarts: {atOnce: 3, pause: 60}
      virtualMachineCIDRs:
      - 10.66.10.0/24
      - cidr: 10.66.20.0/24
        gateway: 10.66.20.1
        nameservers: {addresses: [10.66.20.2], search: [example.test]}
        routes: [{to: 10.0.0.0/8, via: 10.66.20.3}]
        exclude: [10.66.20.2-10.66.20.9]
        filter: false
        retired: true
      virtualMachineIPLeaseRetention: 60
`

func wholeConfig() Config {
	class := "local-path"
	s := objects.DefaultSettings()
	s.DataStorageClass, s.CPUOvercommit, s.RAMOvercommit = &class, 4, 1.5
	s.LoadBalancer = &objects.ServiceMetadata{
		Labels:      map[string]string{"team": "blue"},
		Annotations: map[string]string{"example.org/Pool": "7"},
	}
	s.LoggingProperties = ".level=FINE\n"
	s.Image, s.ImagePullPolicy, s.ImageRepository = "example.org/runner:1", "Always", "images"
	s.VMTypes, s.KVMResource, s.VhostNetResource = "types", "devices.kubevirt.io/kvm", "vmop/vhost-net"
	s.Trust = objects.Trust{
		Images:  []objects.ImagePattern{"registry.example/vmop/*", "example.org/runner:2"},
		VMTypes: []string{"ours", "*"}, Claims: []string{"runner-data-web-0"},
		TypeImages: []objects.ImagePattern{"registry.example/types/*"},
		URLs:       []objects.URLPattern{"https://images.example/"},
		Bridges:    []string{"br0", "br-vms"}, Unfiltered: []string{"*"},
	}
	s.NoPrivateAddresses = true
	s.OperationsKept, s.OperationsKeptFor = 3, 10*time.Minute
	s.Restarts = objects.Restarts{AtOnce: 3, Pause: time.Minute}
	s.LeaseRetention, s.Ranges = time.Minute, addresses.Ranges{
		{CIDR: "10.66.10.0/24"},
		{
			CIDR: "10.66.20.0/24", Gateway: "10.66.20.1", Exclude: []string{"10.66.20.2-10.66.20.9"},
			Nameservers: &vmspec.Nameservers{Addresses: []string{"10.66.20.2"}, Search: []string{"example.test"}},
			Routes:      []vmspec.Route{{To: "10.0.0.0/8", Via: "10.66.20.3"}}, Filter: new(false), Retired: true,
		},
	}
	if faults := s.Ranges.Check(""); len(faults) > 0 { // Check also parses the ranges
		panic(faults)
	}
	gui := defaultGUI()
	gui.ClusterName = "test"
	return Config{Namespace: "vmop-dev", Settings: s, GUI: gui}
}

func TestParse(t *testing.T) {
	t.Parallel()
	with := func(change func(c *Config)) Config {
		c := Defaults()
		change(&c)
		return c
	}
	for text, want := range map[string]Config{
		"":               Defaults(),
		`"/Manager": {}`: Defaults(),
		"_Manager: null": Defaults(),
		whole:            wholeConfig(),
		`_Manager/Controller/Reconciler: {loadBalancerService: true}`: with(func(c *Config) {
			c.Settings.LoadBalancer = &objects.ServiceMetadata{}
		}),
		`/Manager/Controller/Reconciler: {loadBalancerService: false, imageRepository: ""}`: with(func(c *Config) {
			c.Settings.ImageRepository = ""
		}),
		`/Manager/Controller/Reconciler: {runnerDataPvc: {storageClassName: ""}}`: with(func(c *Config) {
			c.Settings.DataStorageClass = new("")
		}),
		`{/Manager: {/GuiSocketServer: {port: 8443}}, /Manager/GuiHttpServer/ConsoleWeblet/WebConsole: {/ComponentCollector: {}}}`: with(func(c *Config) {
			c.Unused = []string{"/Manager/GuiHttpServer/ConsoleWeblet/WebConsole/ComponentCollector"}
			c.GUI.Port = 8443
		}),
	} {
		got, warnings, err := Parse("config.yaml", []byte(text))
		require.NoError(t, err, text)
		require.Empty(t, warnings)
		require.Equal(t, want, got, text)
	}
}

func TestFormerPathOfPasswords(t *testing.T) {
	t.Parallel()
	_, warnings, err := Parse("c.yaml", []byte("/Manager/Controller/DisplaySecretMonitor:\n  passwordValidity: '10'\n"))
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Equal(t, "c.yaml:1:1: /Manager/Controller/DisplaySecretMonitor: is understood as /Manager/Controller/Reconciler/DisplaySecretReconciler (use the new name)", warnings[0].String())
}

// The former section for the runner's data in VM-Operator's examples is accepted, with a warning that names the current
// section.
func TestConfigurationsOfTheOriginal(t *testing.T) {
	t.Parallel()
	for section, want := range map[string]string{
		"{runnerData: {storageClassName: null}}":                                                "",
		"{runnerData: {storageClassName: rook-cephfs}}":                                         "rook-cephfs",
		"{runnerData: {storageClassName: rook-cephfs}, runnerDataPvc: {storageClassName: new}}": "new",
	} {
		text := "\"/Manager\":\n  \"/Controller\":\n    \"/Reconciler\": " + section + "\n"
		c, warnings, err := Parse("c.yaml", []byte(text))
		require.NoError(t, err, text)
		require.Len(t, warnings, 1)
		require.Contains(t, warnings[0].String(),
			"/Manager/Controller/Reconciler.runnerData: is understood as runnerDataPvc")
		if want == "" {
			require.Nil(t, c.Settings.DataStorageClass)
			continue
		}
		require.Equal(t, want, *c.Settings.DataStorageClass)
	}
}

// A configuration stays active until a valid new configuration arrives; a faulty or missing file doesn't replace it.
func TestSourceKeepsWhatWasGood(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.yaml")
	s := source{file: file, optional: true, current: Defaults()}
	reload := func(text string) (changed bool, err error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		changed, _, err = s.reloadFile()
		return changed, err
	}
	changed, _, err := s.reloadFile()
	require.NoError(t, err, "there need be no file")
	require.False(t, changed)

	changed, err = reload(whole)
	require.NoError(t, err)
	require.True(t, changed)
	changed, err = reload(whole + "# a comment\n")
	require.NoError(t, err)
	require.False(t, changed)
	_, err = reload("/Manager: {colour: blue}")
	require.ErrorContains(t, err, "/Manager.colour: unknown key")
	require.Equal(t, wholeConfig(), s.current)
	require.NoError(t, os.Remove(file))
	_, _, err = s.reloadFile()
	require.ErrorContains(t, err, "no such file")
	require.Equal(t, wholeConfig(), s.current)

	must := source{file: file}
	_, _, err = must.reloadFile()
	require.ErrorContains(t, err, "no such file", "it was asked for")
}
