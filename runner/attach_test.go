package runner_test

import (
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
)

// A CD drive is attached like a disk, if its medium is a file on this computer. A drive without a medium needs a
// restart.
func TestACDDriveIsAttachedByTheConfiguration(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	require.NoError(t, os.WriteFile(v.path("other.iso"), make([]byte, 1<<20), 0o600))
	v.runs()
	v.configure("wrapped", nil, v.section("drives: [{type: ide-cd, file: other.iso, serial: setup}]")...)
	s := v.becomes("the drive is attached", func(s status.Status) bool {
		return len(s.Drives) == 1 && s.Drives[0].Name == "setup" && s.Drives[0].State == status.DriveAttached
	})
	require.EqualValues(t, 1<<20, s.Drives[0].Capacity)
	require.Empty(t, s.RestartAwaitingChanges)

	v.configure("wrapped", nil, v.section("drives: [{type: ide-cd, file: other.iso, serial: setup}, "+
		"{type: ide-cd, file: 'https://example.org/x.iso'}]")...)
	v.becomes("a server is refused", func(s status.Status) bool {
		return slices.ContainsFunc(s.Problems, func(p status.Problem) bool {
			return p.Path == "vm.drives[1]" && strings.Contains(p.Message, "cannot have a medium from a server")
		})
	})
	v.configure("wrapped", nil, v.section("drives: [{type: ide-cd}]")...)
	v.becomes("the guest is asked", func(s status.Status) bool {
		return len(s.Drives) == 1 && s.Drives[0].Message == "waiting for the guest to release the CD drive" &&
			len(s.RestartAwaitingChanges) > 0
	})
	v.ends()
}

// silence is a server that accepts connections but sends no data.
func silence(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// A VM starts without its NBD servers, and doesn't wait for a silent server. A server that was missing from QEMU's
// start is blocked by the kernel, and the runner doesn't try it.
func TestAVMStartsWithoutItsNBDServers(t *testing.T) {
	t.Parallel()
	v := changeable(t)
	require.NoError(t, os.Mkdir(v.path("nbd"), 0o700))
	drive := fmt.Sprintf("{serial: far, nbd: {host: 127.0.0.1, port: %d, tls: nbd}}", silence(t))
	v.configure("wrapped", nil, v.section("drives: ["+drive+"]")...)
	v.runs()
	failed := func(name, text string) func(status.Status) bool {
		return func(s status.Status) bool {
			i := slices.IndexFunc(s.Drives, func(d status.Drive) bool { return d.Name == name })
			return i >= 0 && s.Drives[i].State == status.DriveFailed && strings.Contains(s.Drives[i].Message, text)
		}
	}
	v.becomes("without certificates", failed("far", "ca-cert.pem: no such file"))
	silent := strings.Replace(drive, ", tls: nbd", "", 1)
	v.configure("wrapped", nil, v.section("drives: ["+silent+"]")...)
	v.becomes("the server is silent", failed("far", "does not answer within 3s"))

	other := "{serial: other, nbd: {host: 127.0.0.1, tls: others}}"
	v.configure("wrapped", []string{"nbdCertificates: others"}, v.section("drives: ["+silent+", "+other+"]")...)
	denied := failed("other", "QEMU read only the certificates that the VM was started with")
	v.becomes("the kernel", func(s status.Status) bool {
		return denied(s) && len(s.RestartAwaitingChanges) == 1 && s.RestartAwaitingChanges[0].Path == "nbdCertificates"
	})
	v.ends()
}
