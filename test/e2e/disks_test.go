package e2e_test

import (
	"archive/tar"
	"bytes"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	ggcr "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/diskimage/nbd"
	"vmop/manager/disk"
	"vmop/test/guest"
)

// serveOn serves until the test ends.
func serveOn(t *testing.T, listener net.Listener, handler http.Handler) {
	t.Helper()
	quiet := log.New(io.Discard, "", 0)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}

// A disk is created from a container image in a registry with a private authority and a password, and a VM boots from
// it. If the authority, the password or the image is missing, the disk's status reports it.
func containerDisks(t *testing.T, l *lab) {
	u := newUser(t, l)
	store := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	pushSector(t, store)
	host, authority := registryWithPassword(t, l, store)
	file := filepath.Join(u.home, "ca.pem")
	require.NoError(t, os.WriteFile(file, authority, 0o600))
	create := func(name, tag, more string) {
		image := host + "/images/sector:" + tag
		u.types("kubectl vmop disk create "+name+" --size 16Mi --container-image "+image+" "+more, "")
		t.Cleanup(func() { _ = u.command("kubectl vmop disk remove " + name).Run() })
	}
	create("boxed", "1", "--secret registry --ca-file "+file)
	create("boxed-stranger", "1", "--secret registry")
	create("boxed-anonymous", "1", "--ca-file "+file)
	l.diskIs(t, "boxed", v1.DiskPending, disk.ReasonSecretMissing)
	l.diskIs(t, "boxed-anonymous", v1.DiskFailed, "SourceUnauthorized")
	u.types("kubectl create secret docker-registry registry --docker-server="+host+
		" --docker-username=me --docker-password=canary-registry-5c02", "")
	d := l.diskIs(t, "boxed", v1.DiskReady, "")
	require.Regexp(t, "^sha256:", d.Status.Import.Checksum)
	l.diskIs(t, "boxed-stranger", v1.DiskFailed, "CertificateInvalid")
	create("boxed-none", "2", "--secret registry --ca-file "+file)
	l.diskIs(t, "boxed-none", v1.DiskFailed, "SourceNotFound")

	v := l.create(t, tiny("boxed", func(spec *v1.VirtualMachineSpec) {
		spec.VM.Kernel, spec.VM.PowerdownTimeout = nil, new(int32(1))
		spec.BlockDeviceRefs = []v1.BlockDeviceRef{{Kind: v1.KindVirtualDisk, Name: "boxed"}}
	}))
	v.runs()
	v.console().await(guest.SectorSays)
	require.NotContains(t, v.managerLog(t.Context()), "canary-registry")
}

// registryWithPassword serves a registry over TLS in the cluster's network, for the user me with the password
// canary-registry-5c02. It returns the registry's address and authority.
func registryWithPassword(t *testing.T, l *lab, store http.Handler) (host string, authority []byte) {
	t.Helper()
	listener, err := l.Listen(t.Context())
	require.NoError(t, err)
	own, err := nbd.NewAuthority("registry of a test", time.Now())
	require.NoError(t, err)
	ip := listener.Addr().(*net.TCPAddr).IP
	pair, err := own.Server(nil, []net.IP{ip}, time.Now())
	require.NoError(t, err)
	certificate, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	require.NoError(t, err)
	trusted, err := own.Pair()
	require.NoError(t, err)
	secured := tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}})
	serveOn(t, secured, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "canary-registry-5c02" {
			w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		store.ServeHTTP(w, r)
	}))
	return listener.Addr().String(), trusted.Certificate
}

// pushSector stores a container image with a bootable disk in the folder /disk.
func pushSector(t *testing.T, store http.Handler) {
	t.Helper()
	content := make([]byte, diskSize)
	copy(content, guest.Sector())
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "disk/sector.img", Mode: 0o644, Size: diskSize}))
	_, err := w.Write(content)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	require.NoError(t, err)
	var image ggcr.Image
	image, err = mutate.AppendLayers(empty.Image, layer)
	require.NoError(t, err)
	here := httptest.NewServer(store)
	defer here.Close()
	reference, err := name.ParseReference(here.Listener.Addr().String()+"/images/sector:1", name.Insecure)
	require.NoError(t, err)
	require.NoError(t, remote.Write(reference, image, remote.WithContext(t.Context())))
}
