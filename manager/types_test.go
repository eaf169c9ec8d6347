package manager

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"

	v1 "vmop/api/v1"
	"vmop/manager/vm/controller"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/evaluate"
)

func TestMain(m *testing.M) {
	evaluate.Serve(context.Background(), nil) // if this is an evaluation process
	os.Exit(m.Run())
}

// machine returns a VM with a type.
func machine(name, vmType string) *v1.VirtualMachine {
	m := &v1.VirtualMachine{}
	m.Name, m.Namespace, m.Generation = name, "vmop-demo", 1
	m.Spec.VMType.Source = vmType
	m.Spec.VM = v1.VM{
		MaximumCPUs: new(int32(2)), MaximumRAM: new(resource.MustParse("1Gi")),
		Networks: []v1.Network{{User: &v1.UserNetwork{}}},
		Disks:    []v1.Disk{{VolumeClaimTemplate: &v1.VolumeClaimTemplate{}}, {CDROM: &v1.CDROM{Image: "a.iso"}}},
		State:    v1.Running,
	}
	return m
}

const derived = `
load("@vmtypes//standard.star", standard = "launch")
options = {"colour": attr.string(values = ["red", "blue"], doc = "Of the machine.")}
def launch(vm, host):
    if vm.options.colour == "red":
        fail("red is sold out")
    return standard(vm, host)
`

func withOptions(m *v1.VirtualMachine, text string) *v1.VirtualMachine {
	m.Spec.VM.Options = &runtime.RawExtension{Raw: []byte(text)}
	return m
}

func inNet(m *v1.VirtualMachine, net string) *v1.VirtualMachine {
	m.Spec.VM.Networks[0].User.Net = net
	return m
}

func TestTypeChecker(t *testing.T) {
	t.Parallel()
	modules := map[string]string{
		"mine.star": derived, "broken.star": "def launch(vm, host)\n    return []\n", "README.md": "no type",
		"crowded.star": "def launch(vm, host):\n    return part(executable = \"/usr/bin/qemu-system-x86_64\", machine = " +
			"{\"type\": \"q35\"}, options = [option(\"-device\", \"edu\", {\"addr\": 5}) for _ in range(2)])\n",
		"endless.star": "def launch(vm, host):\n    return [x for x in range(1 << 40) for y in range(1 << 40)]\n",
		"huge.star":    strings.Repeat("#", vmtypes.MaxModule+1),
		"asking.star":  "def launch(vm, host):\n    fail(\"%s %s %s %s\" % (host.kvm, host.dataDir, vm.drives[0].device, vm.drives[1].file))\n",
	}
	c := newTypeChecker()
	for what, row := range map[string]struct {
		vm   *v1.VirtualMachine
		want string // "" means accepted
	}{
		"stock":                 {machine("a", "standard"), ""},
		"stock for another CPU": {machine("a", "arm64"), ""},
		"stock, and it refuses": {
			withOptions(machine("a", "standard"), `{"colour": "red"}`),
			"spec.vm.options.colour: the VM type standard has no such option",
		},
		"custom":               {withOptions(machine("a", "mine"), `{"colour": "blue"}`), ""},
		"custom, and it fails": {withOptions(machine("a", "mine"), `{"colour": "red"}`), "red is sold out"},
		"wrong option":         {withOptions(machine("a", "mine"), `{"colour": "pink"}`), "spec.vm.options.colour: "},
		"no such type":         {machine("a", "mien"), "spec.vmType.source: there is no VM type \"mien\" (did you mean mine?); known are arm64, asking, broken, cloud"},
		"of no ConfigMap":      {machine("a", "absent"), "; " + ofYourOwn},
		"no subnet": {
			inNet(machine("a", "standard"), "10.0.0.300/24"),
			"spec.vm.networks[0] (net): \"10.0.0.300/24\" is not an IPv4 subnet",
		},
		"a file of the image repository": {
			withOptions(machine("a", "windows"), `{"virtioDrivers": "virtio-win.iso"}`), "",
		},
		"another file of the pod": {
			withOptions(machine("a", "windows"), `{"virtioDrivers": "/var/run/secrets/kubernetes.io/serviceaccount/token"}`),
			"spec.vm.options.virtioDrivers: \"/var/run/secrets/kubernetes.io/serviceaccount/token\" is not in the image repository",
		},
		"not Starlark": {machine("a", "broken"), "broken.star:1:21"},
		"no place": {
			machine("a", "crowded"),
			"-device edu: addr=0x5 of the bus pcie.0 is already taken by -device edu (made at crowded.star:2 launch)",
		},
		"no end":       {machine("a", "endless"), "VM type endless: "},
		"too large":    {machine("a", "huge"), "a module at most 262144"},
		"what it sees": {machine("a", "asking"), "True /var/local/vm-data /dev/disk-0 /var/local/vmop-image-repository/a.iso"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			for range 2 { // evaluated, then from the cache
				_, err := c.CheckType(t.Context(), row.vm, modules)
				if row.want == "" {
					require.NoError(t, err)
					continue
				}
				var refused controller.TypeRefused
				require.ErrorAs(t, err, &refused)
				require.Contains(t, refused.Message, row.want)
			}
		})
	}
}

// The same machine and modules are evaluated only once; a canceled check yields no verdict about the type.
func TestVerdictsAreRemembered(t *testing.T) {
	t.Parallel()
	c := newTypeChecker()
	check := func(ctx context.Context, m *v1.VirtualMachine, text string) error {
		_, err := c.CheckType(ctx, m, map[string]string{"mine.star": text})
		return err
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	blue := withOptions(machine("a", "mine"), `{"colour": "blue"}`)
	err := check(over, blue, derived)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, errors.As(err, new(controller.TypeRefused)))
	require.Empty(t, c.verdicts)

	require.NoError(t, check(t.Context(), blue, derived))
	require.NoError(t, check(over, blue, derived), "nothing is evaluated")
	stopped := blue.DeepCopy()
	stopped.Spec.VM.State, stopped.Generation = v1.Stopped, 7
	require.NoError(t, check(over, stopped, derived), "it is the same machine")
	require.Len(t, c.verdicts, 1)

	require.Error(t, check(t.Context(), blue, strings.ReplaceAll(derived, `"red":`, `"blue":`)), "the type has changed")
	require.Error(t, check(t.Context(), withOptions(machine("a", "mine"), `{"colour": "red"}`), derived),
		"the machine has changed")
	require.Len(t, c.verdicts, 3)
}

// The guest's architecture follows from the program that a type starts, regardless of the type's name.
func TestArchitectureOfTheGuest(t *testing.T) {
	t.Parallel()
	modules := map[string]string{
		"mine.star":  "load(\"@vmtypes//arm64.star\", arm64 = \"launch\")\n\ndef launch(vm, host):\n    return arm64(vm, host)\n",
		"riscv.star": "def launch(vm, host):\n    return part(executable = \"/usr/bin/qemu-system-riscv64\", machine = {\"type\": \"virt\"})\n",
	}
	c := newTypeChecker()
	for source, want := range map[string]string{
		"standard": "amd64", "windows": "amd64", "arm64": "arm64", "mine": "arm64", "riscv": "",
	} {
		for range 2 { // evaluated, then from the cache
			accepted, err := c.CheckType(t.Context(), machine("a", source), modules)
			require.NoError(t, err, source)
			require.Equal(t, controller.Accepted{Architecture: want}, accepted, source)
		}
	}
}

// A type decides sizes for what the VM leaves out, regardless of what it decided earlier.
func TestSizesOfTheType(t *testing.T) {
	t.Parallel()
	modules := map[string]string{"sized.star": `
load("@vmtypes//cloud.star", cloud = "launch", cloud_options = "options")

options = cloud_options

def defaults(vm):
    return {"maximumCpus": 8, "currentCpus": 4, "maximumRam": "8 GiB"}

def launch(vm, host):
    return cloud(vm, host)
`}
	m := machine("a", "sized")
	m.Status.TypeSizes = &v1.TypeSizes{CurrentCPUs: new(int32(1)), CurrentRAM: new(resource.MustParse("512Mi"))}
	m.Spec.VM.MaximumCPUs = nil
	accepted, err := newTypeChecker().CheckType(t.Context(), m, modules)
	require.NoError(t, err)
	require.Equal(t, vmspec.Sizes{MaximumCPUs: 8, CurrentCPUs: 4, MaximumRAM: 8 * vmspec.GiB}, accepted.Sizes)
}

// Values that the API server accepts but runners reject are refused with the paths of the definition.
func TestWhatNoRunnerTakes(t *testing.T) {
	t.Parallel()
	m := machine("a", "standard")
	m.Spec.VM.Firmware = "coreboot"
	_, err := newTypeChecker().CheckType(t.Context(), m, nil)
	var refused controller.TypeRefused
	require.ErrorAs(t, err, &refused)
	require.Contains(t, refused.Message, "vm.firmware")
	require.NotContains(t, refused.Message, "spec:", "a place in a file that users don't see")
}
