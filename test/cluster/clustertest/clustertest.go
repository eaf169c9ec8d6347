// Package clustertest provides tests with a real Kubernetes that supports VirtualMachines, and with a namespace for
// each test.
//
//	var shared clustertest.Shared // by all tests of a package
//
//	func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		n := shared.Namespace(t)
//		n.Apply("{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}")
//		n.Kubectl("get", "configmap", "a")
//	}
//
// The first test that needs the cluster starts it. Create clients from [Kubernetes.Config].
package clustertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/program"
)

// Kubernetes is a cluster with the definitions of VirtualMachines and the policy that restricts a runner to its own
// objects.
type Kubernetes struct {
	*cluster.Cluster
	// Config is for clients with all permissions.
	Config *rest.Config
	// Deploy is the project's folder deploy.
	Deploy string

	once   sync.Once // for the following fields
	mapper meta.RESTMapper
	err    error
}

// Up starts a cluster. Take it down with Down.
func Up(ctx context.Context, opts cluster.Options) (*Kubernetes, error) {
	root, err := program.Root(ctx)
	if err != nil {
		return nil, err
	}
	k := &Kubernetes{Deploy: filepath.Join(root, "deploy")}
	if err := program.LookInto(k.Deploy); err != nil { // kubectl reads it
		return nil, err
	}
	if k.Cluster, err = cluster.Up(ctx, opts); err != nil {
		return nil, err
	}
	if err := k.defineShared(ctx); err != nil {
		return nil, errors.Join(err, k.Down(context.WithoutCancel(ctx)))
	}
	return k, nil
}

// defineShared creates the objects that all namespaces share.
func (k *Kubernetes) defineShared(ctx context.Context) (err error) {
	if k.Config, err = Config(k.Cluster); err != nil {
		return err
	}
	if _, err := k.Kubectl(ctx, "apply", "--server-side", "-f", filepath.Join(k.Deploy, "crds"),
		"-f", filepath.Join(k.Deploy, "admission-policy.yaml"),
		"-f", filepath.Join(k.Deploy, "address-policy.yaml"),
		"-f", filepath.Join(k.Deploy, "disk-policy.yaml")); err != nil {
		return err
	}
	var resources []string
	for _, kind := range strings.Fields("vms virtualmachineipaddresses virtualmachineipaddressleases virtualdisks " +
		"virtualdisksnapshots virtualimages clustervirtualimages virtualmachineblockdeviceattachments") {
		resources = append(resources, kind+"."+v1.GroupName)
	}
	if err := k.AwaitResources(ctx, resources...); err != nil {
		return err
	}
	return k.AddSnapshotKinds(ctx)
}

// Config returns the configuration for clients with all permissions and without rate limits.
func Config(c *cluster.Cluster) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	config.QPS, config.Dial = -1, c.Dial
	return config, nil
}

// WriteKubeconfig writes a kubeconfig for a user with a token.
func (k *Kubernetes) WriteKubeconfig(file, token string) error {
	config, err := clientcmd.LoadFromFile(k.Kubeconfig)
	if err != nil {
		return fmt.Errorf("read the administrator's kubeconfig: %w", err)
	}
	for name := range config.AuthInfos {
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	}
	return clientcmd.WriteToFile(*config, file)
}

// New starts a cluster that is taken down when the test ends.
func New(t *testing.T, opts cluster.Options) *Kubernetes {
	t.Helper()
	k, err := Up(t.Context(), opts)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Down(context.WithoutCancel(t.Context()))) })
	return k
}

// Shared is a cluster that the tests of a package share. The zero value has a control plane without nodes.
type Shared struct {
	// Options of the cluster.
	Options cluster.Options
	// Prepare creates the shared objects of the tests, once. Its context ends with the cluster. It may be nil.
	Prepare func(context.Context, *Kubernetes) error

	once sync.Once
	k    *Kubernetes
	err  error
	down func() error
}

// Get returns the cluster. The first call starts it.
func (s *Shared) Get(t *testing.T) *Kubernetes {
	t.Helper()
	s.once.Do(func() {
		always := context.WithoutCancel(t.Context())
		ctx, end := context.WithCancel(always)
		if s.k, s.err = Up(ctx, s.Options); s.err != nil {
			end()
			return
		}
		s.down = func() error { end(); return s.k.Down(always) }
		if s.Prepare != nil {
			s.err = s.Prepare(ctx, s.k)
		}
	})
	require.NoError(t, s.err)
	return s.k
}

// Namespace returns a new namespace of the cluster for a test.
func (s *Shared) Namespace(t *testing.T) *Namespace {
	t.Helper()
	return s.Get(t).Namespace(t)
}

// Run runs tests, a *testing.M, and takes down the cluster if one was started. It returns the exit code.
func (s *Shared) Run(tests interface{ Run() int }) int {
	code := tests.Run()
	if s.down == nil {
		return code
	}
	if err := s.down(); err != nil {
		fmt.Fprintln(os.Stderr, "end the cluster:", err)
		return 1
	}
	return code
}
