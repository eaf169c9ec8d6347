package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// controlPlane starts everything that does not run on a node.
func (c *Cluster) controlPlane(ctx context.Context, nodes int) error {
	if err := c.makeCredentials(nodes); err != nil {
		return err
	}
	etcd := "http://127.0.0.1"
	if err := c.startControlPlane(ctx, "etcd", "--data-dir", "etcd", "--unsafe-no-fsync", "--name", "test",
		"--listen-client-urls", etcd+":2379", "--advertise-client-urls", etcd+":2379",
		"--listen-peer-urls", etcd+":2380", "--initial-advertise-peer-urls", etcd+":2380", "--initial-cluster",
		"test="+etcd+":2380"); err != nil {
		return err
	}
	if err := c.startServer(ctx); err != nil {
		return err
	}
	c.log("the API server is ready")
	// Start it only now: without an API server, the manager sleeps for seconds.
	if err := c.startControlPlane(ctx, "kube-controller-manager", "--kubeconfig", "pki/controllers.kubeconfig",
		"--service-account-private-key-file", "pki/sa.key", "--root-ca-file", "pki/ca.crt",
		"--use-service-account-credentials", "--leader-elect=false", "--bind-address", "127.0.0.1",
		"--profiling=false"); err != nil {
		return err
	}
	return c.startScheduler(ctx)
}

// AuditLog is the file in a cluster's folder with the requests that its AuditPolicy selects.
const AuditLog = "audit.log"

// auditArguments returns the API server's arguments for recording all requests in one file.
func (c *Cluster) auditArguments() ([]string, error) {
	if c.auditPolicy == "" {
		return nil, nil
	}
	const policy = "audit-policy.yaml"
	if err := os.WriteFile(filepath.Join(c.Dir, policy), []byte(c.auditPolicy), 0o600); err != nil {
		return nil, fmt.Errorf("write the policy for the audit log: %w", err)
	}
	return []string{"--audit-policy-file", policy, "--audit-log-path", AuditLog, "--audit-log-maxsize", "10000"}, nil
}

// apiServer is the name of the API server's program.
const apiServer = "kube-apiserver"

// StopServer immediately ends the API server and the scheduler, which might otherwise lose its lease and exit. All
// other programs keep running.
func (c *Cluster) StopServer(ctx context.Context) error {
	return errors.Join(c.endProcess(ctx, "kube-scheduler"), c.endProcess(ctx, apiServer))
}

// StartServer starts the API server and the scheduler after StopServer, and waits until the server is ready.
func (c *Cluster) StartServer(ctx context.Context) error {
	return errors.Join(c.startServer(ctx), c.startScheduler(ctx))
}

func (c *Cluster) startScheduler(ctx context.Context) error {
	return c.startControlPlane(ctx, "kube-scheduler", "--kubeconfig", "pki/scheduler.kubeconfig",
		"--leader-elect=false",
		"--bind-address", "127.0.0.1")
}

func (c *Cluster) startServer(ctx context.Context) error {
	audit, err := c.auditArguments()
	if err != nil {
		return err
	}
	if err := c.startControlPlane(ctx, apiServer, append(audit, "--etcd-servers", "http://127.0.0.1:2379",
		"--bind-address", c.hostAddress(1), "--advertise-address", c.hostAddress(1), "--secure-port", "6443",
		"--tls-cert-file", "pki/apiserver.crt", "--tls-private-key-file", "pki/apiserver.key", "--cert-dir", "pki",
		"--client-ca-file", "pki/ca.crt", "--authorization-mode", "Node,RBAC",
		"--enable-admission-plugins", "NodeRestriction", "--allow-privileged=true",
		"--service-account-issuer", "https://kubernetes.default.svc",
		"--service-account-signing-key-file", "pki/sa.key", "--service-account-key-file", "pki/sa.pub",
		"--service-cluster-ip-range", "10.67.0.0/16", "--kubelet-preferred-address-types", "InternalIP",
		"--profiling=false", "--feature-gates", "APIResponseCompression=false",
		"--enable-aggregator-routing=true", // for webhooks, because no kube-proxy runs next to the API server
	)...); err != nil {
		return err
	}
	return c.awaitServer(ctx)
}

// startControlPlane starts a program of the control plane unless Without lists it.
func (c *Cluster) startControlPlane(ctx context.Context, name string, args ...string) error {
	if slices.Contains(c.without, name) {
		return nil
	}
	cmd := c.Inside(context.WithoutCancel(ctx), filepath.Join(c.Programs, "bin", name),
		append(args, c.Arguments[name]...)...)
	cmd.Dir = c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_, err := c.launchProcess(name, cmd)
	return err
}

// makeCredentials creates the certificates and kubeconfigs of all components.
func (c *Cluster) makeCredentials(nodes int) error {
	dir := filepath.Join(c.Dir, "pki")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("folder for keys: %w", err)
	}
	a, err := newAuthority(dir)
	if err != nil {
		return err
	}
	if err := a.makeServerPair("apiserver", c.hostAddress(1), "127.0.0.1", "10.67.0.1"); err != nil {
		return err
	}
	if err := serviceAccounts(dir); err != nil {
		return err
	}
	clients := map[string][]string{
		"admin": {"admin", "system:masters"}, "controllers": {"system:kube-controller-manager"},
		"scheduler": {"system:kube-scheduler"}, "proxy": {"system:kube-proxy"},
	}
	for i := range nodes {
		name := node{c, i + 1}.nodeName()
		clients[name] = []string{"system:node:" + name, "system:nodes"}
	}
	for name, user := range clients {
		if err := a.makeClientPair(name, user[0], user[1:]...); err != nil {
			return err
		}
		path, err := a.writeKubeconfig(dir, name, c.serverURL())
		if err != nil {
			return err
		}
		if name == "admin" {
			c.Kubeconfig = path
		}
	}
	return nil
}

// awaitServer waits until the API server is ready.
func (c *Cluster) awaitServer(ctx context.Context) error {
	dir := filepath.Join(c.Dir, "pki")
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "admin.crt"), filepath.Join(dir, "admin.key"))
	if err != nil {
		return fmt.Errorf("wait for the API server: %w", err)
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}},
		DialContext:     c.Dial,
	}
	defer transport.CloseIdleConnections()
	return repeatUntil(ctx, "the API server", func() error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.serverURL()+"/readyz", http.NoBody)
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it says %s", strings.ToLower(response.Status))
		}
		return nil
	})
}
