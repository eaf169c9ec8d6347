package runner_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner"
	"vmop/vmstatus"
)

// A VM that cannot be started says why, as exactly as QEMU and the VM type let
// it, and leaves nothing behind.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	standard := func(lines ...string) []string {
		return append([]string{"accelerator: tcg", "firmware: bios", "network: []"}, lines...)
	}
	tests := []struct {
		what    string
		vmType  string
		section []string
		want    []string // parts of the error
	}{
		{
			"a device that QEMU does not know", "bare",
			[]string{"options: {arguments: [[-device, flux-capacitor]]}"},
			[]string{
				"qemu ended while the VM was being started: exit status 1",
				"-device flux-capacitor: 'flux-capacitor' is not a valid device model name",
				"the option -device flux-capacitor\n  was made at bare.star:", " extra < bare.star:",
			},
		},
		{
			"a machine that QEMU does not know", "bare",
			[]string{"machineType: pc-q35-0.1"},
			[]string{
				"unsupported machine type",
				"\nvm.machineType: this QEMU has no machine pc-q35-0.1; it has pc-q35-",
				" more; \"/usr/bin/qemu-system-x86_64 -machine help\" lists all",
			},
		},
		{
			"no program for QEMU", "bare",
			[]string{"options: {qemu: PATH/absent}"},
			[]string{"start qemu: stat PATH/absent: no such file or directory"},
		},
		{
			"no executable for QEMU", "bare",
			[]string{"options: {qemu: PATH/config.yaml}"},
			[]string{"start qemu: PATH/config.yaml is not executable (mode -rw-------)"},
		},
		{
			"a QEMU that ends in silence", "bare",
			[]string{"options: {qemu: /bin/false}"},
			[]string{"qemu ended while the VM was being started: exit status 1"},
		},
		{
			"no program for a helper", "bare",
			[]string{"options: {helper: {program: PATH/absent}}"},
			[]string{"start helper: stat PATH/absent: no such file or directory"},
		},
		{
			"a helper that ends before it is ready", "bare",
			[]string{"options: {helper: {program: /bin/ls, arguments: [PATH/absent], ready: PATH/never}}"},
			[]string{
				"helper ended before it was ready: exit status 2\n", "PATH/absent': No such file or directory",
			},
		},
		{"a TPM that ends at once", "bare", []string{"options: {helper: {program: /bin/false, tpm: true}}"}, []string{
			"qemu ended while the VM was being started: exit status 1", "helper ended, too: exit status 1",
		}},
		{
			"a TPM that complains", "bare",
			[]string{"options: {helper: {program: /bin/ls, arguments: [PATH/absent], tpm: true}}"},
			[]string{
				"qemu ended while the VM was being started: exit status 1", "helper ended, too: exit status 2\n",
				"/bin/ls: unrecognized option '--ctrl'",
			},
		},
		{
			"a template that is missing", "bare",
			[]string{"options: {copy: {source: PATH/absent, to: vars}}"},
			[]string{"make PATH/data/vars: ", "open PATH/absent: no such file or directory"},
		},
		{
			"a disk that is missing", "standard", standard("drives: [{file: PATH/absent.img}]"),
			[]string{"PATH/absent.img"},
		},
		{"a port of VNC that is taken", "standard", standard("display: {vnc: {port: PORT}}"), []string{
			"qemu ended while the VM was being started: exit status 1", "Address already in use", "-vnc vnc=127.0.0.1:",
			"lib/display.star:",
			"\nvm.display.vnc.port: another program has the port PORT of the host, or this user may not listen there: choose " +
				"another; \"ss -ltnup\" shows who listens\n",
		}},
		{
			"a forwarded port that is taken", "standard",
			[]string{
				"accelerator: tcg", "firmware: bios",
				"network: [{type: user, ports: [{host: PORT, guest: 22}]}]",
			},
			[]string{
				"\nvm.network[].ports: another program has the port PORT of the host, or this user may not listen there (below " +
					"1024 only root may): choose another; \"ss -ltnup\" shows who listens",
			},
		},
		{
			"a CPU that QEMU does not know", "standard", standard("cpuModel: z80"),
			[]string{
				"\nvm.cpuModel: this QEMU has no CPU z80; it has ",
			},
		},
		{
			"a network card that QEMU does not know", "standard",
			[]string{"accelerator: tcg", "firmware: bios", "network: [{type: user, device: rt2000}]"},
			[]string{"\nvm.network[].device: this QEMU has no network card rt2000; it has rtl8139 and "},
		},
		{
			"a kernel that is none", "standard", standard("kernel: {image: PATH/config.yaml, initrd: PATH/config.yaml}"),
			[]string{"\nvm.kernel.image: PATH/config.yaml is no Linux kernel for this machine (want one such as "},
		},
		{
			"a folder as a disk", "standard", standard("drives: [{file: PATH}]"),
			[]string{`vm.drives[0].file: "PATH" is a directory (want a file in it)`},
		},
		{
			"a port of SPICE that is taken", "standard", standard("display: {spice: {port: PORT, address: 127.0.0.1}}"),
			[]string{
				"qemu ended while the VM was being started: exit status 1", "initialize spice server",
				"\nvm.display.spice.port: another program has the port PORT of the host, or this user may not listen there: " +
					"choose another; \"ss -ltnup\" shows who listens",
			},
		},
		{"a bridge that is missing", "standard", []string{
			"accelerator: tcg", "firmware: bios",
			"network: [{bridge: br-absent}]",
		}, []string{"br-absent"}},
		{"a kernel that is missing", "standard", standard("kernel: {image: PATH/absent}"), []string{"PATH/absent"}},
	}
	for _, tt := range tests {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			port := strconv.Itoa(listenTCP(t, "127.0.0.1:0")) // is taken
			for i := range tt.section {
				tt.section[i] = strings.ReplaceAll(tt.section[i], "PORT", port)
			}
			v := newVM(t, tt.vmType, tt.section...)
			v.start()
			_, err := v.wait()
			for _, part := range tt.want {
				require.ErrorContains(t, err, strings.NewReplacer("PATH", v.dir, "PORT", port).Replace(part))
			}
			require.NotContains(t, err.Error(), "clean up")
			v.nothingLeft()
			v.notLogged("cleaning up")
			require.NoFileExists(t, v.path("data", "vmtype.txtar"), "only a VM that has proved to start is pinned")
		})
	}
}

// A machine version that a newer QEMU has kept is named with its file: the configuration
// doesn't mention it.
func TestMachineOfANewerQEMU(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0")
	v.runs()
	_, err := v.stop()
	require.NoError(t, err)
	v.write("data/machines.txt", "q35 pc-q35-99.1\n")
	v.log = newLogbook()
	v.fails("\n" + v.path("data", "machines.txt") + ": the VM was first started with the machine pc-q35-99.1, which this " +
		"QEMU doesn't have")
}

// A TPM whose state is damaged is named, with its file.
func TestDamagedTPM(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "accelerator: tcg", "firmware: bios", "network: []", "useTpm: true")
	require.NoError(t, os.MkdirAll(v.path("data"), 0o700))
	require.NoError(t, os.WriteFile(v.path("data", "tpm2-00.permall"), []byte("junk"), 0o600))
	state := v.path("data", "tpm", "tpm2-00.permall")
	v.start()
	_, err := v.wait()
	require.ErrorContains(t, err, "\nthe state of the TPM is damaged: put a backup in the place of "+state+
		", or move it away to have a new TPM made, which knows no secret of the old one")
	require.Equal(t, "junk", v.read("data", "tpm2-00.permall"))
}

// A helper that lives and is never ready is given up.
func TestHelperIsNeverReady(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare", "options: {helper: {program: /bin/sleep, arguments: ['1000'], ready: PATH/never}}")
	v.start()
	_, err := v.wait()
	require.ErrorContains(t, err, "helper is not ready after 10s: "+v.path("never")+" does not exist")
	v.nothingLeft()
}

// Directories that cannot be used are named.
func TestDirectoriesThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	t.Run("data", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare")
		v.write("data", "a file")
		v.start()
		_, err := v.wait()
		require.ErrorContains(t, err, "make data directory: mkdir "+v.path("data")+": not a directory")
		v.nothingLeft()
	})
	t.Run("run", func(t *testing.T) {
		t.Parallel()
		v := newVM(t, "bare")
		require.NoError(t, os.Mkdir(v.path("run"), 0o700))
		require.NoError(t, os.Chown(v.path("run"), 65534, 65534), "this test needs root")
		v.start()
		_, err := v.wait()
		require.ErrorContains(t, err, v.path("run")+" is not a directory of user 0")
		require.Empty(t, v.processes())
	})
}

// A disk that another VM writes to is not touched.
func TestDiskIsLocked(t *testing.T) {
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	section := []string{"accelerator: tcg", "firmware: bios", "network: []", "drives: [{file: " + disk + "}]"}
	first := newVM(t, "standard", section...)
	first.runs()
	second := newVM(t, "standard", section...)
	second.start()
	_, err := second.wait()
	require.ErrorContains(t, err, "write\" lock")
	require.ErrorContains(t, err, "lib/disks.star:")
	second.nothingLeft()
	_, err = first.stop()
	require.NoError(t, err)
	second.runs()
	_, err = second.stop()
	require.NoError(t, err)
}

// A VM runs once, and a runner that is refused disturbs nothing.
func TestSecondRunnerIsRefused(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard", "accelerator: tcg", "firmware: bios", "network: []")
	v.runs()
	before := v.processes()
	_, err := runner.Run(t.Context(), v.options())
	require.ErrorIs(t, err, runner.ErrLocked)
	require.ErrorContains(t, err, v.path("data", "runner.lock"))
	require.Equal(t, before, v.processes())
	conn, err := net.Dial("unix", v.path("run", "console.sock"))
	require.NoError(t, err, "the first VM's sockets are there")
	require.NoError(t, conn.Close())
	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseForced, outcome.Cause)
	v.nothingLeft()
}
