package runner_test

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/prepare"
	"vmop/test/guest"
)

// kernel returns the lines of a vm section that boot the tiny guest.
func kernel(t *testing.T, commandLine string) []string {
	t.Helper()
	return boots(guest.Tiny(t), commandLine)
}

// boots returns the lines of a vm section that boot a guest.
func boots(image guest.Image, commandLine string) []string {
	return []string{
		"accelerator: tcg",
		"firmware: bios",
		"maximumRam: 256 MiB",
		"kernel:",
		"  image: " + image.Kernel,
		"  initrd: " + image.Initrd,
		"  commandLine: " + guest.CommandLine + " " + commandLine,
	}
}

// obedient returns the lines of a vm section that boot guest.Obedient.
func obedient(t *testing.T, counts bool) []string {
	t.Helper()
	return bootsDisk(diskOf(t, guest.Obedient(counts)))
}

// diskOf creates a disk for a guest that consists only of it.
func diskOf(t *testing.T, content []byte) string {
	t.Helper()
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, content, 0o600))
	return disk
}

// bootsDisk returns the lines of a vm section that boot a disk.
func bootsDisk(disk string) []string {
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 64 MiB", "powerdownTimeout: 120",
		"drives: [{file: " + disk + ", bootindex: 1}]",
	}
}

// console is the guest's serial console.
type console struct {
	*guest.Console
	t *testing.T
}

// attach returns the console of a VM. Call it before the VM starts.
func attach(v *vm) *console {
	c := &console{t: v.t}
	v.onPaused = func(ctx context.Context, vm *prepare.VM) error { return c.open(ctx, vm.RuntimeDir) }
	return c
}

// open opens the console of a running VM.
func (c *console) open(ctx context.Context, runtimeDir string) error {
	conn, err := openConsole(ctx, runtimeDir)
	if err != nil {
		return err
	}
	c.t.Cleanup(func() { conn.Close() })
	c.Console = guest.Listen(c.t, conn)
	return nil
}

// openConsole opens the serial console as users do, through the runner.
func openConsole(ctx context.Context, runtimeDir string) (net.Conn, error) {
	client, err := control.Dial(ctx, filepath.Join(runtimeDir, control.SocketName))
	if err != nil {
		return nil, err
	}
	return client.Console(ctx, control.Type)
}
