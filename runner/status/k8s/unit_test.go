package k8s

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	v1 "vmop/api/v1"
	"vmop/runner/machine/changes"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// paths returns the paths of all values below a type, with the tags of a format. A list is represented by its first
// item.
func paths(at string, t reflect.Type, tag string) []string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		return append([]string{at}, paths(at+"[0]", t.Elem(), tag)...)
	case t.Kind() != reflect.Struct || strings.Contains(t.PkgPath(), "k8s.io"):
		return []string{at}
	}
	all := []string{at}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get(tag), ",")
		if name == "" || name == "-" {
			continue
		}
		all = append(all, paths(strings.TrimPrefix(at+"."+name, "."), t.Field(i).Type, tag)...)
	}
	return all
}

// Every field that can differ in the configuration has an existing place in the resource, except for fields that the
// resource lacks.
func TestPlacesAreThoseOfTheResource(t *testing.T) {
	t.Parallel()
	known := append(paths("spec", reflect.TypeFor[v1.VirtualMachineSpec](), "json"), "metadata.name")
	alone := []string{
		"dataDir", "runtimeDir", "nbdCertificates", "vm.machineType", "vm.serialConsole", "vm.serialConsole.enabled",
		"vm.serialConsole.log",
	}
	for _, path := range paths("", reflect.TypeFor[changes.Machine](), "yaml") {
		if path == "" {
			continue
		}
		at, _ := placeInResource(path)
		if slices.Contains(alone, path) {
			require.Equal(t, path, at)
			continue
		}
		require.Contains(t, known, at, path)
	}
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"vmType":                 "spec.vmType.source",
		"cloudInit":              "spec.cloudInit",
		"cloudInit.userDataFile": "spec.cloudInit.userDataFrom", "provisioning": "spec.provisioning",
		"display-password": "spec.vm.display.spice.generateSecret",
		"vm.uuid":          "spec.vm.machineUuid", "vm.sockets": "spec.vm.cpuTopology.sockets",
		"vm.maximumRam": "spec.vm.maximumRam",
		"vm.network":    "spec.vm.networks", "vm.drives": "spec.vm.disks",
		"vm.network[0]": "spec.vm.networks[0]", "vm.network[12].bridge": "spec.vm.networks[12] bridge",
		"vm.network[1].ports[3].host": "spec.vm.networks[1] ports[3].host",
		"vm.network[0].lease.address": "spec.virtualMachineIPAddressName lease.address",
		"vm.network[0].filter":        "spec.virtualMachineIPAddressName filter",
		"vm.drives[0].file":           "spec.vm.disks[0] file", "vm.drives[2].bootindex": "spec.vm.disks[2].bootindex",
		"vm.drives[3]":           "spec.vm.disks[3]",
		"vm.display.vnc.address": "spec.vm.display.vnc address", "vm.display.spice.port": "spec.vm.display.spice.port",
		"vm.options.panic": "spec.vm.options.panic", "vm.options.list[0].x": "spec.vm.options.list[0].x",
		"vm.serialConsole.log": "vm.serialConsole.log", "vm.machineType": "vm.machineType", "dataDir": "dataDir",
		"vmTypes": "vmTypes",
	} {
		at, rest := placeInResource(path)
		require.Equal(t, want, strings.TrimSpace(at+" "+rest))
	}
}

// A message in the resource uses the resource's field names.
func TestMessagesNameTheResource(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		`/etc/opt/vmrunner/config.yaml:31:13: vm.drives[0].file: "/images/live.iso" does not exist`: `spec.vm.disks[0].cdrom.image: "/images/live.iso" does not exist`,
		"vm.drives[12], /dev/disk-12: no space left":                                                "spec.vm.disks[12], /dev/disk-12: no space left",
		"config.yaml:3:1: vm.drives[1].size: make the image":                                        "spec.vm.disks[1].volumeClaimTemplate.spec.resources.requests.storage: make the image",
		"config.yaml:3:1: vm.drives[1].resource: gone":                                              "spec.vm.disks[1].volumeClaimTemplate: gone",
		"config.yaml:3:1: vm.kernel.image: x\nconfig.yaml:4:1: vm.kernel.initrd: y": "" +
			"spec.vm.kernel.image: x\nspec.vm.kernel.initrd: y",
		"vm.network[0].bridge: no bridge \"br1\"":                                  "spec.vm.networks[0].tap.bridge: no bridge \"br1\"",
		"config.yaml:9:1: vm.network[0].mac: taken (by vm.network[1].mac)":         "spec.vm.networks[0] (mac): taken (by spec.vm.networks[1] (mac))",
		"2 errors in the configuration\nc.yaml:9:1: vm.sockets: x\n   9 | sockets": "2 errors in the configuration\nspec.vm.cpuTopology.sockets: x\n   9 | sockets",
		"config.yaml:9:1: vmType: there is no VM type x":                           "spec.vmType.source: there is no VM type x",
		"config.yaml:9:1: did not find expected key":                               "config.yaml:9:1: did not find expected key",
		"the vmType and vm.example.com, see vm.star:3:4: or vm.":                   "the vmType and vm.example.com, see vm.star:3:4: or vm.",
		"desk.star:3:16: no option vm.options.keybords\n    3 | for n in range(vm.options.keybords):\n      |                ^\n    called from vm.network": "" +
			"desk.star:3:16: no option spec.vm.options.keybords\n    3 | for n in range(vm.options.keybords):\n      |                ^\n    called from spec.vm.networks",
		"a.yaml:1:2: ": "a.yaml:1:2: ", "a.yaml:1:2:": "a.yaml:1:2:", "": "", "vm.name": "metadata.name",
		"/vm.name/vm.uuid": "/vm.name/vm.uuid",
		"none of these files exists on this host: /bin/swtpm; on Debian it is in the package swtpm\n": "none of these " +
			"files exists in the runner's image: /bin/swtpm; " +
			"docs/tasks/kubernetes-images.md shows how an image gets Debian's " +
			"package swtpm\n",

		"config.yaml:9:1: cloudInit.networkConfigFile: x":          "spec.cloudInit.networkDataFrom: x",
		"config.yaml:9:1: cloudInit.userData: got a list":          "spec.cloudInit.userData: got a list",
		"config.yaml:9:1: provisioning.userDataFile: no such file": "spec.provisioning.userDataRef: no such file",
		"config.yaml:9:1: provisioning.userData: got a list":       "spec.provisioning.userData: got a list",
	} {
		require.Equal(t, want, InResource(message), message)
	}
	r := newReport(&Pod{}, status.Status{
		State: vmstatus.StateBooted, Message: "vm.currentRam",
		Problems: []status.Problem{{Path: "vm.drives[1].file", Message: "the tray is locked"}},
		Conditions: []status.Condition{{
			Type:    vmstatus.ConditionConfigApplied,
			Message: "vm.drives[1].file: the tray is locked",
		}},
	}, transitions{})
	require.Equal(t, "spec.vm.currentRam", r.Status.Runner.Message)
	require.Equal(t, "spec.vm.disks[1].cdrom.image: the tray is locked", r.Status.Conditions[0].Message)
}

// Changes at the same place are merged.
func TestPending(t *testing.T) {
	t.Parallel()
	type section = map[string]any
	change := func(path, operation string, current, desired any) Change {
		return Change{Path: path, Operation: operation, CurrentValue: current, DesiredValue: desired}
	}
	require.Equal(t, []Change{
		change("vm.disks[0]", "replace", section{"file": "/a", "format": "raw"},
			section{"file": "/b", "format": "qcow2"}),
		change("vm.networks[1]", "add", nil, section{"net": "10.0.0.0/8", "type": "user"}),
		change("vm.networks[0]", "replace", section{"mac": "52:54:00:00:00:01"}, section{"bridge": "br1"}),
		change("vm.useTpm", "replace", false, true),
		change("vm.maximumCpus", "replace", 1, 2),
		change("vm.maximumRam", "replace", "1536Mi", "2Gi"),
		change("vm.options.list", "add", nil, `["`+strings.Repeat("x", longestValue-3)+"…"),
	}, Pending([]status.Change{
		{Path: "vm.drives[0].file", CurrentValue: "/a", DesiredValue: "/b", Operation: "replace"},
		{Path: "vm.drives[0].format", CurrentValue: "raw", DesiredValue: "qcow2", Operation: "replace"},
		{Path: "vm.network[1]", DesiredValue: map[string]any{"type": "user", "net": "10.0.0.0/8"}, Operation: "add"},
		{Path: "vm.network[0].mac", CurrentValue: "52:54:00:00:00:01", Operation: "remove"},
		{Path: "vm.network[0].bridge", DesiredValue: "br1", Operation: "add"},
		{Path: "vm.useTpm", CurrentValue: false, DesiredValue: true, Operation: "replace"},
		{Path: "vm.maximumCpus", CurrentValue: 1, DesiredValue: 2, Operation: "replace"},
		{Path: "vm.maximumRam", CurrentValue: "1536 MiB", DesiredValue: "2 GiB", Operation: "replace"},
		{Path: "vm.options.list", DesiredValue: slices.Repeat([]any{strings.Repeat("x", 200)}, 9), Operation: "add"},
	}))
}

func TestQuantity(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{
		0, 1, 1023, 1024, 1536, 1 << 20, 384 << 20, 1<<30 + 1, 3 << 30, 1 << 60,
		1<<62 + 1<<20,
	} {
		require.Equal(t, resource.NewQuantity(bytes, resource.BinarySI).String(), formatQuantity(bytes))
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\nb�c", cleanText("a\nb\x1bc", 10))
	require.Equal(t, "1234…", cleanText("123456", 5))
	require.Equal(t, "12345", cleanText("12345", 5))
	require.Equal(t, "äöü…", cleanText("äöüßä", 4))
	for _, s := range []string{strings.Repeat("\xff", 100), strings.Repeat("\U0001F600", 100), "\U0001F600\xf0\x9f"} {
		got := cleanText(s, 7)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), 7)
	}
}

// A pod belongs to a VM if it has the name and a token.
func TestFindPod(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "namespace"), []byte("here\n"), 0o600))
	variables := map[string]string{
		"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443",
		"POD_NAME": "my-vm-0", "POD_UID": "u",
	}
	found, err := FindPod(func(name string) string { return variables[name] }, dir)
	require.NoError(t, err)
	require.Equal(t, &Pod{
		Name: "my-vm-0", UID: "u", Namespace: "here", VM: "my-vm", server: "https://[fd00::1]:443",
		account: dir,
	}, found)
	for name, change := range map[string]map[string]string{
		"outside of a cluster": {"KUBERNETES_SERVICE_HOST": ""}, "no name": {"POD_NAME": ""},
		"another pod":   {"POD_NAME": "web-6b7c"},
		"only a number": {"POD_NAME": "-0"}, "no number": {"POD_NAME": "web-"},
	} {
		found, err := FindPod(func(name string) string {
			if value, is := change[name]; is {
				return value
			}
			return variables[name]
		}, dir)
		require.NoError(t, err, name)
		require.Nil(t, found, name)
	}
	found, err = FindPod(func(name string) string { return variables[name] }, t.TempDir())
	require.NoError(t, err)
	require.Nil(t, found, "no token was given")
}

// The delay between attempts grows, and a delay requested by the API server is respected.
func TestDelay(t *testing.T) {
	t.Parallel()
	within := func(err error, failures int, least, most time.Duration) {
		for range 50 {
			d := retryDelay(err, failures)
			require.GreaterOrEqual(t, d, least)
			require.LessOrEqual(t, d, most)
		}
	}
	broken := errors.New("connection refused")
	within(broken, 1, time.Second/2, time.Second)
	within(broken, 3, 2*time.Second, 4*time.Second)
	within(broken, 6, 15*time.Second, 30*time.Second)
	within(broken, 1<<40, 15*time.Second, 30*time.Second)
	within(&AnswerError{Code: http.StatusNotFound}, 1, 30*time.Second, time.Minute)
	within(fmt.Errorf("wrapped: %w", &AnswerError{Code: http.StatusNotFound}), 9, 30*time.Second, time.Minute)
	within(&AnswerError{Code: http.StatusForbidden}, 2, time.Second, 2*time.Second)
	busy := &AnswerError{Code: http.StatusTooManyRequests}
	busy.Details.RetryAfterSeconds = 7
	within(busy, 1, 7*time.Second, 7*time.Second)
	busy.Details.RetryAfterSeconds = 1 << 30
	within(busy, 1, time.Minute, time.Minute)
}
