package guest_test

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/guest"
)

// startQEMUGA starts the real agent on this machine. Its socket is passed through systemd's socket activation, so that
// no test waits for it. It is not allowed to shut down or to freeze file systems.
func startQEMUGA(t testing.TB) string {
	binary, err := exec.LookPath("qemu-ga")
	if err != nil {
		binary = "/usr/sbin/qemu-ga"
	}
	require.FileExists(t, binary, "Debian package qemu-guest-agent")
	l, path := listenForLines(t)
	socket, err := l.File()
	require.NoError(t, err)
	defer socket.Close()
	dir := filepath.Dir(path)
	agent := exec.Command("sh", "-c", `LISTEN_FDS=1 LISTEN_PID=$$ exec "$0" "$@"`,
		binary, "--method=unix-listen", "--block-rpcs=guest-shutdown,guest-fsfreeze-freeze,guest-fsfreeze-freeze-list",
		"--statedir="+dir, "--pidfile="+filepath.Join(dir, "pid"))
	agent.ExtraFiles = []*os.File{socket}
	agent.Stderr = os.Stderr
	require.NoError(t, agent.Start())
	t.Cleanup(func() {
		agent.Process.Kill()
		agent.Wait()
	})
	return path
}

func TestTheRealAgent(t *testing.T) {
	t.Parallel()
	path := startQEMUGA(t)
	a := dial(t, path)
	ctx := timeout(t)
	require.NoError(t, a.Ping(ctx))

	info, err := a.Info(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, info.Version)
	require.True(t, info.Commands["guest-get-osinfo"])
	require.False(t, info.Commands["guest-shutdown"])

	system, err := a.OSInfo(ctx)
	require.NoError(t, err)
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	require.NoError(t, err)
	require.Equal(t, strings.TrimSpace(string(release)), system.KernelRelease)

	before := cards(t)
	interfaces, err := a.Interfaces(ctx)
	require.NoError(t, err)
	after := cards(t) // other tests create and remove cards
	for _, card := range before {
		if reflect.DeepEqual(after[card.Name], card) {
			require.Contains(t, interfaces, card)
		}
	}

	state, err := a.FSFreezeStatus(ctx)
	require.NoError(t, err)
	require.Equal(t, guest.Thawed, state)
	_, err = a.FreezeFS(ctx)
	require.ErrorIs(t, err, qmp.CommandNotFound)

	for range 2 {
		err = a.Shutdown(ctx, guest.PowerDown)
		require.ErrorIs(t, err, qmp.CommandNotFound)
		require.ErrorContains(t, err, "guest-shutdown has been disabled")
	}
	_, err = a.Run(ctx, qmp.Command{Execute: "guest-file-close", Arguments: map[string]int{"handle": 99}})
	require.ErrorIs(t, err, qmp.GenericError)
	require.NoError(t, a.Ping(ctx))
	require.NoError(t, a.Close())

	require.NoError(t, dial(t, path).Ping(ctx), "the next client")
}

// cards returns this machine's network cards as Go reports them, by name.
func cards(t *testing.T) map[string]guest.Interface {
	all, err := net.Interfaces()
	require.NoError(t, err)
	found := map[string]guest.Interface{}
	for _, i := range all {
		if i.Flags&net.FlagLoopback != 0 || len(i.HardwareAddr) != len("123456") {
			continue
		}
		card := guest.Interface{Name: i.Name, MAC: i.HardwareAddr.String()}
		addresses, err := i.Addrs()
		require.NoError(t, err)
		for _, a := range addresses {
			card.Addresses = append(card.Addresses, netip.MustParsePrefix(a.String()))
		}
		found[i.Name] = card
	}
	return found
}
