// Package clustertest gives tests a real Kubernetes that knows VirtualMachines, and
// a namespace to each of them.
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
// A cluster is started when the first test asks for it. Clients are made of
// [Kubernetes.Config].
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

// Kubernetes is a cluster that knows VirtualMachines, and holds runners to their own.
type Kubernetes struct {
	*cluster.Cluster
	// Config is for clients of who may do everything.
	Config *rest.Config
	// Deploy is the folder deploy of the project.
	Deploy string

	once   sync.Once // for what follows
	mapper meta.RESTMapper
	err    error
}

// Up starts one. It is taken down as any cluster.
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

// defineShared makes what all namespaces share.
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

// Config returns what clients need that may do everything in a cluster, as fast as
// they can.
func Config(c *cluster.Cluster) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	config.QPS, config.Dial = -1, c.Dial
	return config, nil
}

// WriteKubeconfig writes a file for a user who has a token.
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

// Shared is a cluster that the tests of a package share. The zero value has a control
// plane, and no nodes.
type Shared struct {
	// Options of the cluster.
	Options cluster.Options
	// Prepare makes what the tests share in it, once. Its context is done when the
	// cluster goes. Nil: nothing.
	Prepare func(context.Context, *Kubernetes) error

	once sync.Once
	k    *Kubernetes
	err  error
	down func() error
}

// Get returns the cluster, which the first call starts.
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

// Run runs tests, a *testing.M, and takes the cluster down that they had, if any. It
// returns the exit code.
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
