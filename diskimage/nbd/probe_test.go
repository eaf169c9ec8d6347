package nbd_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/diskimage/nbd"
	"vmop/test/wait"
	"vmop/vmspec"
)

// probe requests an export from a server at 127.0.0.1.
func probe(t *testing.T, port int, export, tls string) error {
	t.Helper()
	server := vmspec.NBD{Host: "127.0.0.1", Port: port, Export: export, TLS: tls}
	return nbd.Probe(t.Context(), server, wait.Longest)
}

// The probe finds and reports the errors that would prevent QEMU from opening the disk.
func TestAServerIsAskedBeforeQEMUIs(t *testing.T) {
	t.Parallel()
	certs, others, image := certificates(t), certificates(t), disk(t)
	s := run(t, nbd.Export{Disk: image, Name: "data", TLS: certs.server}).ready(t)
	port := int(s.Port)
	require.NoError(t, probe(t, port, "data", certs.client))

	require.ErrorContains(t, probe(t, port, "data", ""), "the server requires TLS; set tls")
	require.ErrorContains(t, probe(t, port, "other", certs.client), `it has no export "other"`)
	require.ErrorContains(t, probe(t, port, "data", others.client), "certificate signed by unknown authority")
	require.ErrorContains(t, probe(t, port, "data", t.TempDir()), "ca-cert.pem: no such file")
	named := vmspec.NBD{Host: "localhost", Port: port, Export: "data", TLS: certs.client}
	require.ErrorContains(t, nbd.Probe(t.Context(), named, wait.Longest), "not localhost")

	mixed := t.TempDir() // the server's authority with a certificate from another authority
	for name, from := range map[string]string{
		nbd.CAFile: certs.client, nbd.ClientCertificateFile: others.client,
		nbd.ClientKeyFile: others.client,
	} {
		text, err := os.ReadFile(from + "/" + name)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(mixed+"/"+name, text, 0o600))
	}
	require.ErrorContains(t, probe(t, port, "data", mixed), "may not accept the client's certificate")

	s.end(t)
	require.ErrorContains(t, probe(t, port, "data", certs.client), "connection refused")
}

// The probe gives up on a silent server and rejects other protocols.
func TestWhatIsNoServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	silent := vmspec.NBD{Host: "127.0.0.1", Port: port}
	require.ErrorContains(t, nbd.Probe(t.Context(), silent, 50*time.Millisecond), "does not answer within 50ms")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n"))
		}
	}()
	require.ErrorContains(t, probe(t, port, "", ""), "it speaks no NBD")
}
