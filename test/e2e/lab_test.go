package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/cluster"
	"vmop/test/cluster/clustertest"
	"vmop/test/guest"
	"vmop/test/program"
)

const (
	// tick is the interval of checks.
	tick = 200 * time.Millisecond
	// namespace is the namespace of the seed document's example.
	namespace = "vmop-demo"
	// storage is the class of the volumes that the lab creates.
	storage = "lab"
)

// lab is a cluster with a manager and everything that VMs need.
type lab struct {
	*cluster.Cluster
	client  client.Client
	volumes *volumes
	// users are the tests that have created a VM, by VM name. The VM's claims remain, so a VM of the same name in
	// another test would reuse them.
	users sync.Map
}

// newLab starts the cluster and the manager. Everything is removed when the test ends.
func newLab(t testing.TB) *lab {
	t.Helper()
	return newLabWith(t, cluster.Options{})
}

// newLabWith does the same with options of the cluster.
func newLabWith(t testing.TB, opts cluster.Options) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "e2e")
	require.NoError(t, err)
	require.NoError(t, errors.Join(
		program.LookAt(t.Context(), "vmop/cmd/vmrunner", "vmop/cmd/vmmanager", "vmop/deploy/images"),
		program.LookInto("../../deploy"), program.LookInto("../../examples")))
	l := &lab{}
	images, repository := filepath.Join(dir, "images"), filepath.Join(dir, "repository")

	begin := time.Now()
	g, ctx := errgroup.WithContext(t.Context())
	g.Go(func() (err error) {
		opts.Nodes, opts.Dir = 2, dir
		opts.Log = func(line string) { t.Logf("%4.1f s %s", time.Since(begin).Seconds(), line) }
		l.Cluster, err = cluster.Up(ctx, opts)
		return err
	})
	g.Go(func() error {
		out, err := exec.CommandContext(ctx, "go", "run", "vmop/deploy/images", "-version", "devel", "-o",
			images, "-programs", os.Getenv(program.Folder)).CombinedOutput()
		if err != nil {
			return fmt.Errorf("build the images: %w\n%s", err, out)
		}
		t.Logf("%4.1f s %s", time.Since(begin).Seconds(), out)
		return nil
	})
	g.Go(func() error {
		if _, err := guest.Build(ctx, repository); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(repository, "cd.iso"), make([]byte, 1<<20), 0o644)
	})
	err = g.Wait()
	if l.Cluster != nil {
		t.Cleanup(func() { l.down(t) })
	}
	require.NoError(t, err)
	for _, name := range []string{"runner", "manager"} {
		require.NoError(t, l.Load(t.Context(), filepath.Join(images, name+".tar")))
	}
	t.Logf("%4.1f s images are loaded", time.Since(begin).Seconds())
	l.connect(t)
	l.volumes = provision(t, l)
	l.deploy(t)
	l.watchQEMUs(t)
	t.Logf("%4.1f s the manager is ready", time.Since(begin).Seconds())
	return l
}

// down ends the cluster. The logs are kept if the test failed.
func (l *lab) down(t testing.TB) {
	ctx := context.WithoutCancel(t.Context())
	if t.Failed() {
		t.Logf("the manager's log:\n%s", l.managerLog(ctx))
	}
	require.NoError(t, l.Down(ctx))
}

// managerLog returns the last lines of the current manager's log and of the previous one's.
func (l *lab) managerLog(ctx context.Context) string {
	var text strings.Builder
	for _, which := range []string{"--previous=true", "--previous=false"} {
		out, err := l.Kubectl(ctx, "-n", namespace, "logs", "-l", "app.kubernetes.io/name=vm-operator", "--tail=400",
			which)
		if err == nil {
			text.WriteString(out)
		}
	}
	return text.String()
}

// connect creates a client with all permissions for the tests.
func (l *lab) connect(t testing.TB) {
	t.Helper()
	config, err := clustertest.Config(l.Cluster)
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1.AddToScheme(scheme))
	l.client, err = client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
}

// kubectl runs kubectl in the namespace of the VMs.
func (l *lab) kubectl(t testing.TB, args ...string) string {
	t.Helper()
	out, err := l.Kubectl(t.Context(), append([]string{"-n", namespace}, args...)...)
	require.NoError(t, err)
	return out
}

// deploy applies deploy/ with a typical user's kustomization, and waits for the manager.
func (l *lab) deploy(t testing.TB) {
	t.Helper()
	overlay := l.overlay(t, "manager")
	l.apply(t, "testdata/cluster.yaml")
	_, err := l.Kubectl(t.Context(), "apply", "--server-side", "-k", overlay)
	require.NoError(t, err)
	l.kubectl(t, "rollout", "status", "deployment/vm-operator", "--timeout=4m")
}

// apply applies a file. REPOSITORY in it is replaced by the folder of the image repository.
func (l *lab) apply(t testing.TB, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	l.applyText(t, strings.ReplaceAll(string(text), "REPOSITORY", filepath.Join(l.Dir, "repository")))
}

// applyText applies resources.
func (l *lab) applyText(t testing.TB, text string) {
	t.Helper()
	cmd := l.KubectlCommand(t.Context(), "-n", namespace, "apply", "--server-side", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", out, text)
}

// meanwhile calls do repeatedly while the test runs.
func meanwhile(t testing.TB, do func(context.Context)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			do(ctx)
			select {
			case <-ctx.Done():
			case <-time.After(tick):
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
}
