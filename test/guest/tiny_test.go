package guest_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
)

// The guest reports the machine and its NoCloud disk, answers commands, and powers off when the power button is
// pressed.
func TestTinyGuestReportsAnswersAndPowersOff(t *testing.T) {
	t.Parallel()
	v := boot(t, "",
		"-smp", "2,maxcpus=4", "-uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
		"-drive", "format=raw,readonly=on,if=virtio,file="+seed(t),
		"-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net,mac=52:54:00:12:34:56")

	_, report := await(t, v.lines, `^TINY [0-9.]+ READY$`)
	told := strings.Join(report, "\n")
	for what, pattern := range map[string]string{
		"the kernel":      `TINY [0-9.]+ init kernel=\d+\.\d+`,
		"the drivers":     `drivers loaded=\d+`,
		"the button":      `powerbutton device=/dev/input/event\d`,
		"the seed":        `nocloud device=/dev/vda1? files=meta-data,user-data instance-id=i-1 hostname=one`,
		"the user data":   `(?m)^USERDATA: #cloud-config\nUSERDATA: x: "a  b"$`,
		"the identity":    `machine uuid=6ba7b810-9dad-11d1-80b4-00c04fd430c8`,
		"the firmware":    `firmware efi=0`,
		"no TPM":          `tpm none`,
		"the processors":  `cpus count=2 online=0-1 present=0-1 possible=0-3`,
		"the memory":      `memory total=2\d{5}kB free=\d+kB available=\d+kB`,
		"the disk":        `block vda bytes=1474560 ro=1`,
		"the network":     `net eth0 mac=52:54:00:12:34:56 carrier=1 address=10.0.2.15/24`,
		"the serial port": `port name=org.tiny.agent.0 device=/dev/vport`,
	} {
		require.Regexp(t, pattern, told, what)
	}
	require.NotContains(t, told, "error=")

	for _, channel := range []string{"the console", "the port"} {
		conn, lines := v.console, v.lines
		if channel == "the port" {
			conn = v.dial("port")
			lines = follow(conn)
		}
		for command, answer := range map[string]string{
			"ping":                     `^pong$`,
			"status":                   `^status cpus count=2 .* memory total=\d+kB`,
			"sh echo here; exit 3":     `^rc=3$`,
			"sh wc -c < /proc/version": `^\d+$`,
			"seed":                     `^nocloud device=/dev/vda1? files=`,
			"what":                     `^unknown command what`,
		} {
			_, err := fmt.Fprintln(conn, command)
			require.NoError(t, err)
			await(t, lines, answer)
		}
	}

	v.qmp("system_powerdown", nil, nil)
	await(t, v.lines, `powerbutton pressed`)
	await(t, v.lines, `poweroff`)
	v.gone()
}

// With tiny.dhcp the guest takes a lease, here from QEMU's user network. With tiny.nopower it ignores the power button.
func TestTinyGuestTakesALeaseAndIgnoresTheButton(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	v := boot(t, "tiny.dhcp tiny.nopower", "-netdev", "user,id=net", "-device", "virtio-net-pci,netdev=net")

	await(t, v.lines, `net eth0 lease=10.0.2.15/24 router=10.0.2.2 dns=10.0.2.3 .*seconds=\d+`)
	await(t, v.lines, `nocloud none`)
	await(t, v.lines, `READY`)
	v.qmp("system_powerdown", nil, nil)
	await(t, v.lines, `powerbutton pressed`)

	_, err := fmt.Fprintln(v.console, "poweroff")
	require.NoError(t, err)
	await(t, v.lines, `^ok$`)
	v.gone()
}

// The guest finds a TPM. It brings hot-plugged processors online and reports them.
func TestTinyGuestSeesTPMAndNewProcessors(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	tpm, _ := swtpm(t)
	v := boot(t, "", "-smp", "1,maxcpus=2",
		"-chardev", "socket,id=tpm,path="+tpm, "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device",
		"tpm-crb,tpmdev=tpm0")

	match, _ := await(t, v.lines, `tpm version=2 code=0x00000000 clock=(\d+) resets=\d+ restarts=\d+ pcr0=[0-9A-F]{64}`)
	require.NotEqual(t, "0", match[1])
	await(t, v.lines, `cpus count=1 online=0 present=0 possible=0-1`)
	await(t, v.lines, `READY`)

	var slots []struct {
		Type  string
		Props json.RawMessage
	}
	v.qmp("query-hotpluggable-cpus", nil, &slots)
	free := map[string]any{"driver": slots[0].Type, "id": "cpu1"}
	require.NoError(t, json.Unmarshal(slots[0].Props, &free))
	v.qmp("device_add", free, nil)
	await(t, v.lines, `hotplug cpu add cpu1 online=0-1`)
	v.qmp("quit", nil, nil)
	v.gone()
}

// The guest finds a TPM that at first answers too late for the kernel, as on a busy computer.
func TestTinyGuestFindsASlowTPM(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	tpm, process := swtpm(t)
	v := boot(t, "loglevel=7",
		"-chardev", "socket,id=tpm,path="+tpm, "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device",
		"tpm-tis,tpmdev=tpm0")
	await(t, v.lines, `Linux version`) // the firmware has used the TPM
	failed, slowed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(slowed)
		for over := false; !over; {
			_ = process.Signal(syscall.SIGSTOP)
			select {
			case <-failed:
				over = true
			case <-t.Context().Done():
				over = true
			case <-time.After(1600 * time.Millisecond): // twice the kernel's waiting time
			}
			_ = process.Signal(syscall.SIGCONT)
			time.Sleep(time.Millisecond)
		}
	}()
	match, _ := await(t, v.lines, `driver tpm failed|READY`)
	close(failed)
	<-slowed
	require.Equal(t, "driver tpm failed", match[0])
	await(t, v.lines, `driver tpm tries=\d+`)
	await(t, v.lines, `tpm version=2 code=0x00000000 clock=\d+ resets=\d+ restarts=\d+ pcr0=[0-9A-F]{64}`)
	v.qmp("quit", nil, nil)
	v.gone()
}

func TestBuildWritesTheSameGuestEveryTime(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "folder")
	first, err := guest.Build(t.Context(), dir)
	require.NoError(t, err)
	require.Equal(t, guest.Image{Kernel: dir + "/vmlinuz", Initrd: dir + "/initrd.gz"}, first)
	again, err := guest.Build(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.Equal(t, read(t, first.Initrd), read(t, again.Initrd))
	require.Equal(t, read(t, first.Kernel), read(t, guest.Tiny(t).Kernel))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

// swtpm starts a TPM and returns its socket and its process. The process ends with the connection, or with the test.
func swtpm(t *testing.T) (string, *os.Process) {
	t.Helper()
	dir, err := os.MkdirTemp("", "tpm")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "sock")
	process := exec.CommandContext(t.Context(), "swtpm", "socket", "--tpm2", "--terminate",
		"--tpmstate", "dir="+dir, "--ctrl", "type=unixio,path="+socket)
	require.NoError(t, process.Start(), "install the package swtpm")
	t.Cleanup(func() { _ = process.Process.Kill(); _ = process.Wait() })
	wait.Until(t, func() bool { _, err := os.Stat(socket); return err == nil })
	return socket, process.Process
}

// seed creates a NoCloud disk with mtools, as users do.
func seed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	image := filepath.Join(dir, "seed.img")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "meta-data"),
		[]byte("instance-id: i-1\nlocal-hostname: \"one\"\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "user-data"), []byte("#cloud-config\nx: \"a  b\"\n"), 0o600))
	for _, command := range [][]string{
		{"mformat", "-C", "-f", "1440", "-v", "CIDATA", "-i", image},
		{"mcopy", "-i", image, filepath.Join(dir, "meta-data"), filepath.Join(dir, "user-data"), "::"},
	} {
		output, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
		require.NoError(t, err, "%s (package mtools): %s", strings.Join(command, " "), output)
	}
	return image
}
