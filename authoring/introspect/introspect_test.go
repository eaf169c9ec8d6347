package introspect_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/introspect"
	"vmop/test/wait"
)

func open(t *testing.T, program, cache string) *introspect.QEMU {
	t.Helper()
	q, err := introspect.Open(context.WithoutCancel(t.Context()), program, cache) // the test closes it
	require.NoError(t, err, "install the package qemu-system-x86")
	t.Cleanup(func() { require.NoError(t, q.Close()) })
	return q
}

// The real QEMU answers queries about each kind of option.
func TestWhatQEMUSays(t *testing.T) {
	t.Parallel()
	q := open(t, "qemu-system-x86_64", "")
	require.Regexp(t, `^QEMU \d+\.\d+\.\d+$`, q.Name())
	for _, flag := range []string{
		"-machine", "-device", "-help", "-h", "-fda", "-fdb", "-S", "-sandbox", "-accel",
		"-name",
	} {
		require.Contains(t, q.Flags(), flag)
	}
	require.NotContains(t, q.Flags(), "-numa dist")
	for flag, value := range map[string]string{
		"-device": "virtio-net", "-object": "memory-backend-file", "-machine": "q35", "-accel": "tcg", "-cpu": "max",
		"-netdev": "user", "-blockdev": "qcow2", "-global": "ICH9-LPC",
	} {
		require.Contains(t, q.Values(flag), value)
		require.NotContains(t, q.Values(flag), "nonsense")
	}
	require.Nil(t, q.Values("-append"))
	for _, c := range []struct{ flag, value, property string }{
		{"-device", "virtio-net", "mac"}, // by an alias
		{"-device", "virtio-blk-pci", "addr"},
		{"-device", "usb-tablet", "port"},
		{"-device", "scsi-hd", "scsi-id"},
		{"-object", "memory-backend-ram", "size"},
		{"-machine", "q35", "smm"},
		{"-machine", "pc", "accel"},
		{"-accel", "tcg", "thread"},
		{"-cpu", "max", "vmx"},
		{"-netdev", "user", "hostfwd"},
		{"-blockdev", "file", "filename"},
		{"-blockdev", "file", "node-name"},
		{"-chardev", "socket", "path"},
		{"-smp", "", "maxcpus"},
		{"-rtc", "", "base"},
		{"-vnc", "", "id"},
		{"-global", "ICH9-LPC", "disable_s3"},
	} {
		require.Contains(t, q.Properties(c.flag, c.value), c.property, "%s %s", c.flag, c.value)
		require.NotContains(t, q.Properties(c.flag, c.value), "nonsense", "%s %s", c.flag, c.value)
	}
	require.Nil(t, q.Properties("-device", "nonsense"))
	require.Nil(t, q.Properties("-append", ""))
}

// The real QEMU describes options, values and properties.
func TestHelp(t *testing.T) {
	t.Parallel()
	q := open(t, "qemu-system-x86_64", "")
	for _, c := range []struct{ flag, value, property, want string }{
		{"-rtc", "", "", "set the RTC base and clock"},
		{"-netdev", "user", "", "hostfwd=rule"},
		{"-netdev", "", "", "-netdev tap,"},
		{"-device", "pcie-root-port", "", "PCI Express Root Port\n\nBus: PCI."},
		{"-device", "virtio-rng-pci", "", "Bus: PCI."},
		{"-device", "virtio-rng", "", "-device virtio-rng-pci"}, // by an alias
		{"-machine", "q35", "", "Standard PC (Q35 + ICH9, 2009)"},
		{"-object", "memory-backend-file", "", "-object memory-backend-file"},
		{"-device", "virtio-rng-pci", "addr", "addr: int32\n```\nSlot and optional function number"},
		{"-device", "virtio-rng-pci", "rombar", "Default: `1`."},
		{"-object", "memory-backend-file", "share", "Mark the memory as private to QEMU or shared"},
		{"-blockdev", "file", "aio", "threads|native"},
		{"-netdev", "user", "hostfwd", "list of"},
		{"-machine", "q35", "accel", "accel: "},
		{"-boot", "", "menu", "menu: bool"},
	} {
		require.Contains(t, q.Help(c.flag, c.value, c.property), c.want, "%+v", c)
	}
	require.Empty(t, q.Help("-device", "nonsense", ""))
	require.Empty(t, q.Help("-device", "virtio-rng-pci", "nonsense"))
	require.Empty(t, q.Help("-nonsense", "", ""))
}

// Answers are cached until the program changes. The second time, QEMU is not started, and the cache also contains
// answers to later queries.
func TestCache(t *testing.T) {
	t.Parallel()
	dir, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	program, log := filepath.Join(dir, "qemu"), filepath.Join(dir, "log")
	script := "#!/bin/sh\necho >> " + log + "\nexec qemu-system-x86_64 \"$@\"\n"
	writeProgram(t, program, script)
	calls := func() int {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		return len(text)
	}
	first := open(t, program, cache)
	want := first.Properties("-device", "virtio-rng-pci")
	require.Contains(t, want, "max-bytes")
	require.NoError(t, first.Close())
	before := calls()
	require.Positive(t, before)

	second := open(t, program, cache)
	require.ElementsMatch(t, want, second.Properties("-device", "virtio-rng-pci"))
	require.Equal(t, first.Name(), second.Name())
	require.Equal(t, before, calls(), "QEMU was started again")
	require.NotEmpty(t, second.Properties("-device", "e1000"), "what was not asked yet is")
	require.Equal(t, before+1, calls())

	writeProgram(t, program, script+"# newer\n")
	open(t, program, cache)
	require.Greater(t, calls(), before+1, "another program has not been asked")

	files, err := filepath.Glob(filepath.Join(cache, "qemu-*.json"))
	require.NoError(t, err)
	for _, file := range files {
		require.NoError(t, os.WriteFile(file, []byte("{"), 0o600))
	}
	require.NotEmpty(t, open(t, program, cache).Flags(), "a cache that is damaged")
}

// After a crash, QEMU is started again for the next query.
func TestCrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := filepath.Join(dir, "qemu")
	// The program passes on all queries except one, which kills QEMU.
	script := `#!/bin/bash
case "$*" in *stdio*) ;; *) exec qemu-system-x86_64 "$@" ;; esac
exec 3>&1
coproc QEMU { exec qemu-system-x86_64 "$@" >&3; }
while read -r question; do
	case "$question" in *deadly*) kill -9 $QEMU_PID; exit 3 ;; esac
	echo "$question" >&"${QEMU[1]}"
done
kill -9 $QEMU_PID
`
	writeProgram(t, program, script)
	q := open(t, program, "")
	require.Nil(t, q.Properties("-device", "deadly"))
	require.Contains(t, q.Properties("-device", "virtio-rng-pci"), "max-bytes")
}

// QEMU ends with the process that asks it, even if that is killed, as editors do with language servers.
func TestQEMUEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	if program := os.Getenv("INTROSPECT"); program != "" {
		_, _ = introspect.Open(t.Context(), program, "") // the test kills this process
		return
	}
	dir := t.TempDir()
	program, pidFile := filepath.Join(dir, "qemu"), filepath.Join(dir, "pid")
	writeProgram(t, program, `#!/bin/sh
case "$*" in *stdio*) echo $$ >`+pidFile+`.new; mv `+pidFile+`.new `+pidFile+`; exec sleep 1000 ;; esac
exec qemu-system-x86_64 "$@"
`)
	asker := exec.Command(os.Args[0], "-test.run=^TestQEMUEndsWithItsProcess$")
	asker.Env = append(os.Environ(), "INTROSPECT="+program)
	require.NoError(t, asker.Start())
	var pid []byte
	wait.Until(t, func() bool {
		pid, _ = os.ReadFile(pidFile)
		return len(pid) > 0
	})
	require.NoError(t, asker.Process.Kill())
	_ = asker.Wait() // it was killed
	wait.Until(t, func() bool {
		_, err := os.Stat("/proc/" + strings.TrimSpace(string(pid)))
		return err != nil
	})
}

func TestNoQEMU(t *testing.T) {
	t.Parallel()
	_, err := introspect.Open(t.Context(), "/nowhere/qemu", "")
	require.ErrorContains(t, err, "look for QEMU: ")
	_, err = introspect.Open(t.Context(), "false", "")
	require.ErrorContains(t, err, "what it knows: -help: exit status 1")
}

// writeProgram writes an executable script. Another process opens the file for writing, because a child that this
// process forks at the same time would keep it open, and executing the script would fail (ETXTBSY).
func writeProgram(t *testing.T, path, script string) {
	t.Helper()
	write := exec.CommandContext(t.Context(), "sh", "-c", `cat >"$1" && chmod 700 "$1"`, "sh", path)
	write.Stdin = strings.NewReader(script)
	require.NoError(t, write.Run())
}
