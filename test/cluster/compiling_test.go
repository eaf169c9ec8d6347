package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/keyutil"
)

// With other flags, the go command would link 141 MB again at each start of a cluster.
func TestLinkerFlagsStayTheSame(t *testing.T) {
	t.Parallel()
	for range 100 {
		require.Equal(t, linkerFlags(oldestVersion), linkerFlags(oldestVersion))
	}
	require.Contains(t, linkerFlags(kubernetesVersion),
		"-X k8s.io/component-base/version.gitVersion="+kubernetesVersion+" ")
}

// The modules from which Kubernetes is built require the versions that the documents promise.
func TestVersionsOfKubernetes(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/tasks/cluster-admin.md")
	require.NoError(t, err)
	for module, version := range map[string]string{
		"kubernetes": kubernetesVersion, "kubernetes-oldest": oldestVersion,
	} {
		text, err := os.ReadFile("../../tools/" + module + "/go.mod")
		require.NoError(t, err)
		require.Contains(t, string(text), "k8s.io/kubernetes "+version+"\n")
	}
	for _, chart := range []string{"chart", "runner-chart"} {
		text, err := os.ReadFile("../../deploy/" + chart + "/Chart.yaml")
		require.NoError(t, err)
		require.Contains(t, string(text), `kubeVersion: ">=`+minorOf(oldestVersion)+`.0-0"`)
	}
	promise := fmt.Sprintf("| Kubernetes | %[1]s or newer | %[1]s and %[2]s |", minorOf(oldestVersion),
		minorOf(kubernetesVersion))
	require.Contains(t, string(page), promise)
}

// minorOf returns "1.30" for "v1.30.14".
func minorOf(version string) string {
	return strings.Join(strings.Split(strings.TrimPrefix(version, "v"), ".")[:2], ".")
}

// A long build logs its progress. A failed build returns the errors without the hundreds of other lines.
func TestProgressOfABuild(t *testing.T) {
	t.Parallel()
	c := &compiling{name: "kubeall"}
	for _, part := range []string{
		"go: downloading k8s.io/api v0.37.2\ninternal/a", "bi\nk8s.io/api/core/v1\n",
		"# k8s.io/x\nx.go:3:4: undefined: y\n", "last",
	} {
		_, err := c.Write([]byte(part))
		require.NoError(t, err)
	}
	require.Equal(t, "building kubeall for 1m30s: 1 modules fetched, 2 packages compiled", c.compileProgress(90*time.Second))
	require.Equal(t, "# k8s.io/x\nx.go:3:4: undefined: y\nlast", c.compilerComplaints())
	failed := c.logDuring(func(string) {}, func() error { return errors.New("exit status 1") })
	require.EqualError(t, failed, "exit status 1")
}

// Waiting for another process's build is logged, and ends with the context.
func TestWaitingForTheLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	other, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, syscall.Flock(int(other.Fd()), syscall.LOCK_EX))
	ctx, cancel := context.WithCancelCause(t.Context())
	var lines []string
	_, err = lockFile(ctx, path, func(line string) {
		lines = append(lines, line)
		cancel(errors.New("interrupted"))
	})
	require.ErrorContains(t, err, "interrupted")
	require.Equal(t, []string{"another process builds the programs of Kubernetes: waiting until it unlocks " + path}, lines)

	var said strings.Builder
	unlocked, err := lockFile(t.Context(), path, func(line string) {
		said.WriteString(line)
		_ = other.Close() // which ends it
	})
	require.NoError(t, err)
	unlocked()
	require.Contains(t, said.String(), "waiting")
}

// All components have certificates of the same authority, for their RBAC names and their addresses.
func TestCredentials(t *testing.T) {
	t.Parallel()
	c := &Cluster{Dir: t.TempDir(), Number: 3}
	require.NoError(t, c.makeCredentials(2))
	dir := filepath.Join(c.Dir, "pki")
	require.Equal(t, filepath.Join(dir, "admin.kubeconfig"), c.Kubeconfig)
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(ca))
	for name, subject := range map[string]string{
		"admin": "CN=admin,O=system:masters", "controllers": "CN=system:kube-controller-manager",
		"scheduler": "CN=system:kube-scheduler", "proxy": "CN=system:kube-proxy",
		"node1": "CN=system:node:node1,O=system:nodes", "node2": "CN=system:node:node2,O=system:nodes",
	} {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, name+".kubeconfig"))
		require.NoError(t, err)
		require.Equal(t, "https://10.66.3.1:6443", config.Host)
		require.Equal(t, ca, config.CAData)
		pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
		require.NoError(t, err)
		usage := []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
		_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: usage})
		require.NoError(t, err)
		require.Equal(t, subject, pair.Leaf.Subject.String())
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "apiserver.crt"), filepath.Join(dir, "apiserver.key"))
	require.NoError(t, err)
	for _, name := range []string{"10.66.3.1", "127.0.0.1", "10.67.0.1", "localhost", "kubernetes.default.svc"} {
		_, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: name})
		require.NoError(t, err, name)
	}
	_, err = tls.LoadX509KeyPair(filepath.Join(dir, "ca.crt"), filepath.Join(dir, "ca.key"))
	require.NoError(t, err)
	private, err := keyutil.PrivateKeyFromFile(filepath.Join(dir, "sa.key"))
	require.NoError(t, err)
	public, err := keyutil.PublicKeysFromFile(filepath.Join(dir, "sa.pub"))
	require.NoError(t, err)
	require.Equal(t, []any{private.(*ecdsa.PrivateKey).Public()}, public)
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode(), file.Name())
	}
	require.ErrorContains(t, c.makeCredentials(2), "folder for keys: ", "they are made once")
	require.ErrorContains(t, c.controlPlane(t.Context(), 2), "folder for keys: ")

	nowhere := filepath.Join(dir, "nowhere")
	a, err := newAuthority(nowhere)
	require.ErrorContains(t, err, "make a key: ")
	require.ErrorContains(t, a.makeClientPair("x", "x"), "make a key: ")
	require.ErrorContains(t, a.makeServerPair("x"), "make a key: ")
	_, err = a.writeKubeconfig(dir, "x", "")
	require.ErrorContains(t, err, "write a kubeconfig: ")
	require.ErrorContains(t, serviceAccounts(nowhere), "make a key: ")
}
