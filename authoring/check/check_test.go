package check_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/check"
	"vmop/authoring/sample"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// from returns a Launch for the types of a folder.
func from(t testing.TB, dir string) check.Launch {
	t.Helper()
	library, err := vmtypes.Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { library.Close() })
	return func(ctx context.Context, name string, spec vmspec.Spec, host vmtypes.Host) (*plan.Plan, error) {
		vmType, err := library.Load(ctx, name)
		if err != nil {
			return nil, err
		}
		return vmType.Launch(ctx, spec, host)
	}
}

// The installed QEMU accepts all machines of the stock types and the examples, with their rules.
func TestQEMUAcceptsStockTypes(t *testing.T) {
	t.Parallel()
	checker := &check.Checker{}
	// These devices and processes are omitted if the host lacks them.
	onHost := map[string]string{
		"passthrough-graphics-card": "-device vfio-pci", "vsock-without-network": "-device vhost-vsock-pci",
		"shares-on-debian-12": "the process virtiofsd-share", "civirtiofs-job": "the process virtiofsd-share",
		"gpu-workstation": "-device vfio-pci",
	}
	for _, dir := range []string{"../../vmtypes/testdata/golden", "../../examples/vmtypes"} {
		launch := from(t, dir)
		paths, err := sample.Find(dir)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
				t.Parallel()
				s, err := sample.Read(path)
				require.NoError(t, err)
				r, err := checker.Sample(t.Context(), s, launch)
				require.NoError(t, err)
				require.Empty(t, r.Failures)
				for _, without := range r.Without {
					require.Contains(t, without, onHost[s.Name()])
					require.NotEmpty(t, onHost[s.Name()])
				}
				require.Empty(t, r.Warnings)
				if s.NeedsQEMU != "" && r.Untried != "" {
					require.Contains(t, r.Untried, "needs QEMU")
					return
				}
				if r.Untried != "" { // because of this computer
					require.Regexp(t, "^it needs (KVM$|a KVM that can do more)", r.Untried)
					require.True(t, s.Host.KVM || s.VM.Accelerator == vmspec.AcceleratorKVM)
					return
				}
				require.NotEmpty(t, r.Version)
				require.NotEmpty(t, r.Machine)
			})
		}
	}
}

// try checks a type with this source.
func try(t *testing.T, text string, vm string) check.Result {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "mine.star"), []byte(text), 0o600))
	path := filepath.Join(dir, "mine.txtar")
	require.NoError(t, os.WriteFile(path, []byte("x\n-- vm.yaml --\n"+vm), 0o600))
	s, err := sample.Read(path)
	require.NoError(t, err)
	r, err := (&check.Checker{}).Sample(t.Context(), s, from(t, dir))
	require.NoError(t, err)
	return r
}

// launching returns a type with some given parts.
func launching(parts string) string {
	text := `load("@vmtypes//lib/qemu.star", "blockdev", "chardev", "device", "netdev", "object")

def launch(vm, host):
    return part(
        executable = host.find(["/usr/bin/qemu-system-x86_64"]),
        machine = {"type": "q35"} | machine(),
        options = [option("-nodefaults"), option("-display", "none")] + more(host),
        hotplug = rules(),
    )

` + parts + "\n"
	for name, nothing := range map[string]string{"machine()": "{}", "more(host)": "[]", "rules()": "[]"} {
		if !strings.Contains(parts, "def "+name) {
			text += "\ndef " + name + ": return " + nothing + "\n"
		}
	}
	return text
}

// A failure contains the line that created the rejected option.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ parts, message, option, origin string }{
		"unknown device": {
			`def more(host): return [device("virtio-nett-pci", {"id": "n"})]`,
			"qemu-system-x86_64: -device virtio-nett-pci,id=n: 'virtio-nett-pci' is not a valid device model name",
			"-device virtio-nett-pci,id=n", "mine.star:11 more",
		},
		"unknown property": {
			`def more(host): return [device("virtio-rng-pci", {"id": "n", "speed": 1})]`,
			"qemu-system-x86_64: -device virtio-rng-pci,id=n,speed=1: Property 'virtio-rng-pci.speed' not found",
			"-device virtio-rng-pci,id=n,speed=1", "mine.star:11 more",
		},
		"unknown option": {
			`def more(host): return [option("-foo")]`, "qemu-system-x86_64: -foo: invalid option", "-foo",
			"mine.star:11 more",
		},
		"unknown machine": {
			`def machine(): return {"type": "q35"} | {"hpett": True}`, "qemu-system-x86_64: Property 'pc-q35-",
			"-machine q35,hpett=on", "",
		},
		"unknown CPU": {
			`def more(host): return [option("-cpu", "Foo")]`, "qemu-system-x86_64: unable to find CPU model 'Foo'",
			"-cpu Foo", "mine.star:11 more",
		},
		"paths are those of the plan": {
			`def more(host): return [device("virtio-rng-pci", {"max-bytes": host.dataDir + "/a"})]`,
			"qemu-system-x86_64: -device virtio-rng-pci,max-bytes=/data/a: Parameter 'max-bytes' expects",
			"-device virtio-rng-pci,max-bytes=/data/a", "mine.star:11 more",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := try(t, launching(c.parts), "")
			require.Len(t, r.Failures, 1)
			require.Contains(t, r.Failures[0].Message, c.message)
			require.Equal(t, c.option, r.Failures[0].Option)
			require.Contains(t, r.Failures[0].Origin.String(), c.origin)
		})
	}
}

// The subject of a rule must support the change.
func TestRulesOfTheMachine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ parts, want string }{
		"balloon": {
			"def more(host): return [device(\"virtio-rng-pci\", {\"id\": \"b\"})]\ndef rules(): return " +
				"[hotplug.balloon(\"b\", maximum = 1)]",
			"rule balloon device=b maximum=1: b must be a virtio-balloon, not a virtio-rng-pci",
		},
		"places for CPUs": {
			"def more(host): return [option(\"-smp\", \"1,maxcpus=2\")]\ndef rules(): return " +
				"[hotplug.cpus(maximum = 4)]",
			"places for CPUs: 2, but the rule has 4; set maxcpus of -smp",
		},
		"CPUs at the start": {
			"def more(host): return [option(\"-smp\", \"2,maxcpus=4\")]\ndef rules(): return " +
				"[hotplug.cpus(maximum = 4)]",
			"CPUs at the start: 2, but the rule has 1; set cpus of -smp",
		},
		"CD that is none": {
			"def more(host): return [device(\"virtio-rng-pci\", {\"id\": \"b\"})]\ndef rules(): return " +
				"[hotplug.medium(drive = 0, device = \"b\")]",
			"rule medium drive=0 device=b: b is not a drive",
		},
		"disk as a CD": {
			"def more(host): return [option(\"-drive\", None, {\"if\": \"none\", \"id\": \"d\", \"file\": " +
				"\"/images/a.img\", \"format\": \"raw\"}), device(\"virtio-blk-pci\", {\"id\": \"b\", \"drive\": " +
				"\"d\"})]\n" +
				"def rules(): return [hotplug.medium(drive = 0, device = \"b\")]",
			"the medium of the drive b can't be changed",
		},
		"memory": {
			"def machine(): return {\"memory-backend\": None}\n" +
				"def more(host): return [option(\"-m\", \"64M,maxmem=1G\"), object(\"memory-backend-ram\", \"o\", " +
				"{\"size\": 64 << 20}), device(\"virtio-mem-pci\", {\"id\": \"b\", \"memdev\": \"o\"})]\n" +
				"def rules(): return [hotplug.memory(\"b\", base = 64 << 20, maximum = 256 << 20)]",
			"b can give 67108864 bytes, but the rule needs 201326592",
		},
		"password": {
			"def more(host): return [option(\"-vnc\", \"127.0.0.1:0\")]\ndef rules(): return " +
				"[hotplug.password(\"vnc\")]",
			"rule password protocol=vnc: QMP set_password: Could not set password",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := try(t, launching(c.parts), "")
			require.Len(t, r.Failures, 1, "%+v", r)
			require.Contains(t, r.Failures[0].Message, c.want)
		})
	}
}

// A missing device or program of this computer is not a failure of the type.
func TestWhatIsNotHere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		parts, untried, without string
		missing                 bool
	}{
		"PCI device": {
			parts: `def more(host): return [device("vfio-pci", {"id": "gpu", "host": "0000:ff:1f.7", "addr": ` +
				`"0x5"}), device("virtio-rng-pci", {"addr": "0x6"})]`,
			without: "-device vfio-pci,id=gpu,host=0000:ff:1f.7,addr=0x5: vfio /sys/bus/pci/devices/0000:ff:1f.7: no " +
				"such host device",
		},
		"server elsewhere": {
			parts:   `def more(host): return [chardev("c", "socket", {"path": "/run/absent.sock"})]`,
			untried: "it needs the program that listens on /run/absent.sock (-chardev c)",
		},
		"device file": {
			parts:   `def more(host): return [object("rng-random", "r", {"filename": "/dev/no-such-device"})]`,
			untried: "it needs /dev/no-such-device",
		},
		"program": {
			parts: `def launch(vm, host): return part(executable = "/usr/bin/qemu-system-none", machine = ` +
				`{"type": "x"})`,
			untried: "it needs the program qemu-system-none, which is not installed", missing: true,
		},
		"helper": {
			parts: "def launch(vm, host): return part(executable = \"/usr/bin/qemu-system-x86_64\", machine = " +
				"{\"type\": \"q35\"}, helpers = [process(\"h\", \"/usr/bin/no-such-helper\", [])])",
			without: "the process h: the program no-such-helper is not installed",
		},
		"helper of a TPM": {
			parts: "def launch(vm, host): return part(executable = \"/usr/bin/qemu-system-x86_64\", machine = " +
				"{\"type\": \"q35\"}, helpers = [process(\"h\", \"/usr/bin/no-such-helper\", [\"--socket=/run/h\"])], " +
				"options = [option(\"-chardev\", \"socket\", {\"id\": \"c\", \"path\": \"/run/h\"}), " +
				"option(\"-tpmdev\", \"emulator\", {\"id\": \"t\", \"chardev\": \"c\"}), " +
				"option(\"-device\", \"tpm-crb\", {\"tpmdev\": \"t\"})])",
			without: "-tpmdev emulator,id=t,chardev=c: the program no-such-helper is not installed\n" +
				"-device tpm-crb,tpmdev=t: the program no-such-helper is not installed",
			missing: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := launching(c.parts)
			if strings.HasPrefix(c.parts, "def launch") {
				text = c.parts
			}
			r := try(t, text, "")
			require.Empty(t, r.Failures)
			require.Equal(t, c.untried, r.Untried)
			require.Equal(t, c.missing, r.Missing)
			require.Contains(t, strings.Join(r.Without, "\n"), c.without)
			require.Equal(t, c.without != "", len(r.Without) > 0)
		})
	}
}

// More memory than the computer has is not reserved, so that QEMU creates the machine anyway.
func TestLargeMemory(t *testing.T) {
	t.Parallel()
	overcommit, err := os.ReadFile("/proc/sys/vm/overcommit_memory")
	require.NoError(t, err)
	for name, c := range map[string]struct{ parts, want string }{
		"object": {
			"def machine(): return {\"memory-backend\": \"m\"}\ndef more(host): return [option(\"-m\", \"900G\"), " +
				"object(\"memory-backend-ram\", \"m\", {\"size\": \"900G\", \"reserve\": True})]",
			"in -object memory-backend-ram,id=m: the reservation of its memory",
		},
		"no object": {
			"def more(host): return [option(\"-m\", 900 << 10)]", "in -m 921600M: the reservation of its memory",
		},
		"size as a property": {
			"def more(host): return [option(\"-m\", None, {\"size\": \"900G\", \"slots\": 2, \"maxmem\": \"910G\"})]",
			"in -m 900G: the reservation of its memory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := try(t, launching(c.parts), "")
			require.Empty(t, r.Failures)
			switch strings.TrimSpace(string(overcommit)) {
			case "0":
				require.Equal(t, []string{c.want}, r.Replaced)
			case "2": // the kernel never promises more memory than it has
				require.Contains(t, r.Untried, "overcommit_memory")
				return
			}
			require.Empty(t, r.Untried)
			require.NotEmpty(t, r.Machine)
		})
	}
}

// QEMU creates all kinds of vhost-user devices although the programs that emulate them are missing.
func TestVhostUserDevices(t *testing.T) {
	t.Parallel()
	for device, props := range map[string]string{
		"vhost-user-fs-pci":    `, "tag": "t"`,
		"vhost-user-blk-pci":   `, "num-queues": 4`,
		"vhost-user-scsi-pci":  `, "num_queues": 2`,
		"vhost-user-vsock-pci": "",
		"vhost-user-rng-pci":   "",
		"vhost-user-i2c-pci":   "",
		"vhost-user-gpio-pci":  "",
	} {
		t.Run(device, func(t *testing.T) {
			t.Parallel()
			r := try(t, `def launch(vm, host):
    return part(
        executable = "/usr/bin/qemu-system-x86_64",
        machine = {"type": "q35"},
        helpers = [process("h", "/usr/bin/no-such-helper", ["--socket", "/run/h"])],
        options = [
            option("-chardev", "socket", {"id": "c", "path": "/run/h"}),
            option("-device", "`+device+`", {"chardev": "c"`+props+`}),
        ],
    )
`, "")
			require.Empty(t, r.Failures)
			require.Empty(t, r.Untried)
			require.Empty(t, r.Warnings)
			require.False(t, r.Missing)
			require.Equal(t, []string{"the process h: the program no-such-helper is not installed"}, r.Without)
		})
	}
}
