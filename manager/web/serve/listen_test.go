package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/visitor"
	"vmop/test/wait"
)

// writePair writes a certificate for a name the way the kubelet writes a Secret: into a new folder, with a link that is
// replaced.
func writePair(t *testing.T, folder, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(filepath.Join(folder, name), 0o700))
	for file, block := range map[string]*pem.Block{
		"tls.crt": {Type: "CERTIFICATE", Bytes: certificate}, "tls.key": {Type: "PRIVATE KEY", Bytes: private},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name, file), pem.EncodeToMemory(block), 0o600))
		if err := os.Symlink(filepath.Join("..data", file), filepath.Join(folder, file)); !errors.Is(err, os.ErrExist) {
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Symlink(name, filepath.Join(folder, "..new")))
	require.NoError(t, os.Rename(filepath.Join(folder, "..new"), filepath.Join(folder, "..data")))
}

// presented returns the name in the certificate of a server.
func presented(t *testing.T, address string) string {
	t.Helper()
	conn, err := (&tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	defer conn.Close()
	secured, ok := conn.(*tls.Conn)
	require.True(t, ok)
	return secured.ConnectionState().PeerCertificates[0].Subject.CommonName
}

// headerOf returns the header of the login page.
func headerOf(t *testing.T, origin string) http.Header {
	t.Helper()
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), "GET", origin+"/login", nil)
	require.NoError(t, err)
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	return answer.Header
}

// A replaced certificate is used for new connections; open connections stay.
func TestCertificateIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha")
	folder := t.TempDir()
	c := local(t, "ann")
	c.TLSFolder = folder
	c.Access.Administrators.Users = []string{"ann"}
	r := h.replica(c)
	r.logs("the pages are not served, trying again")
	require.ErrorContains(t, r.Ready(), "tls.crt")

	writePair(t, folder, "one")
	address := r.address(1)
	require.NoError(t, r.Ready())
	require.Equal(t, "one", presented(t, address))
	require.Equal(t, "max-age=31536000", headerOf(t, "https://"+address).Get("Strict-Transport-Security"))
	ann := visitor.New(t, nil)
	ann.Scheme = "https://"
	ann.LogIn(address, "ann", "ann")
	await, _ := ann.Live(address)
	await(`id="vm-alpha"`)
	writePair(t, folder, "two")
	wait.For(t, "the new certificate", func() error {
		if name := presented(t, address); name != "two" {
			return errors.New(name)
		}
		return nil
	})
	h.vm("beta")
	await(`id="vm-beta"`)

	require.NoError(t, os.WriteFile(filepath.Join(folder, "two", "tls.crt"), []byte("broken"), 0o600))
	r.logs("the new certificate of the pages is not used")
	require.Equal(t, "two", presented(t, address))
	require.NotContains(t, r.log.String(), "PRIVATE")
}

// A new port and TLS take effect without a restart. If a port is taken, the server reports that and waits for it.
func TestPortChanges(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := local(t, "ann")
	r := h.replica(c)
	before := r.address(1)
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	c.Port, err = strconv.Atoi(port)
	require.NoError(t, err)
	r.Configure(c)
	r.logs("address already in use")
	require.ErrorContains(t, r.Ready(), "listen for browsers")
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", before)
	require.Error(t, err, "it has closed")
	require.NoError(t, taken.Close())
	after := r.address(2)
	require.Equal(t, "127.0.0.1:"+port, after)
	require.Empty(t, headerOf(t, "http://"+after).Get("Strict-Transport-Security"), "browsers ignore it by http")
	code, _ := visitor.New(t, nil).Get(after, "/login")
	require.Equal(t, http.StatusOK, code)
}
