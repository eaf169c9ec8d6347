package cluster

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"vmop/test/program"
)

// CSIClass is the name of the storage class and of the snapshot class in a cluster with CSI.
const CSIClass = "csi"

//go:embed csi.yaml
var csiClasses string

// AddCSI adds storage with volumes that can grow and that support snapshots and clones. It starts a CSI driver
// (tools/csi/csidriver) on each running node and for the controller, and Kubernetes' sidecar programs. The volumes are
// in the folder csi of the cluster's folder.
func (c *Cluster) AddCSI(ctx context.Context) error {
	programs, err := CSIPrograms(ctx, c.log)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.csiFolder(), 0o700); err != nil {
		return fmt.Errorf("add CSI: %w", err)
	}
	if err := c.defineCSI(ctx); err != nil {
		return err
	}
	c.CSI = programs
	if err := c.startBeside(ctx, "csidriver", "-endpoint", c.csiSocket(), "-folder", c.csiFolder()); err != nil {
		return err
	}
	for i := range maxNodes {
		if n := (node{c, i + 1}); c.Processes[n.nodeName()].Runs() {
			if err := n.startCSI(ctx); err != nil {
				return err
			}
		}
	}
	common := []string{"--kubeconfig", c.Kubeconfig, "--kube-api-qps", "100", "--kube-api-burst", "100"}
	driver := append(common[:len(common):len(common)], "--csi-address", c.csiSocket(), "--timeout", "60s")
	return errors.Join(
		c.startBeside(ctx, "csi-provisioner", append(driver, "--default-fstype", "xfs")...),
		c.startBeside(ctx, "csi-attacher", append(driver, "--default-fstype", "xfs")...),
		c.startBeside(ctx, "csi-resizer", driver...),
		c.startBeside(ctx, "csi-snapshotter", driver...),
		c.startBeside(ctx, "snapshot-controller", common...),
	)
}

func (c *Cluster) csiFolder() string { return filepath.Join(c.Dir, "csi") }

func (c *Cluster) csiSocket() string { return filepath.Join(c.Dir, "csi.sock") }

// startBeside starts a CSI program next to the control plane.
func (c *Cluster) startBeside(ctx context.Context, name string, args ...string) error {
	cmd := c.Inside(context.WithoutCancel(ctx), filepath.Join(c.CSI, name), args...)
	cmd.Dir = c.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	_, err := c.launchProcess(name, cmd)
	return err
}

// startCSI starts the driver on the node, and waits until it is registered with the kubelet.
func (n node) startCSI(ctx context.Context) error {
	const kubelet = "/var/lib/kubelet"
	endpoint := filepath.Join(kubelet, "plugins", "csi.example.test.sock")
	if err := os.MkdirAll(filepath.Join(n.nodeDir(), "kubelet", "plugins"), 0o750); err != nil {
		return fmt.Errorf("start the CSI driver of %s: %w", n.nodeName(), err)
	}
	registry := filepath.Join(kubelet, "plugins_registry")
	if err := os.MkdirAll(filepath.Join(n.nodeDir(), "kubelet", "plugins_registry"), 0o750); err != nil {
		return fmt.Errorf("start the CSI driver of %s: %w", n.nodeName(), err)
	}
	first := fmt.Sprint(n.c.Processes[n.nodeName()].PID)
	cmd := exec.CommandContext(context.WithoutCancel(ctx), "nsenter", "--target", first, "--mount", "--pid", "--",
		filepath.Join(n.c.CSI, "csidriver"), "-endpoint", endpoint, "-folder", n.c.csiFolder(), "-node", n.nodeName(),
		"-registration", filepath.Join(registry, "csi.example.test-reg.sock"))
	cmd.Env = append(os.Environ(), CSIEnvironment(n.c.CSI)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if _, err := n.c.launchProcess("csidriver-"+n.nodeName(), cmd); err != nil {
		return err
	}
	return repeatUntil(ctx, "the CSI driver of "+n.nodeName(), func() error {
		out, err := n.c.Kubectl(ctx, "get", "csinode", n.nodeName(), "-o", "jsonpath={.spec.drivers[*].name}")
		if err == nil && out == "" {
			err = errors.New("the kubelet doesn't have it")
		}
		return err
	})
}

// AddSnapshotKinds adds the definitions of VolumeSnapshots to the API server, which are usually installed with a CSI
// driver.
func (c *Cluster) AddSnapshotKinds(ctx context.Context) error {
	root, err := program.Root(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json",
		"github.com/kubernetes-csi/external-snapshotter/client/v8")
	cmd.Dir = filepath.Join(root, csiModule)
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	text, err := outputOf(cmd)
	if err != nil {
		return err
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(text), &module); err != nil {
		return fmt.Errorf("find the definitions of VolumeSnapshots: %w", err)
	}
	if _, err := c.Kubectl(ctx, "apply", "--server-side", "-k", filepath.Join(module.Dir, "config/crd")); err != nil {
		return err
	}
	const group = ".snapshot.storage.k8s.io"
	return c.AwaitResources(ctx, "volumesnapshots"+group, "volumesnapshotcontents"+group, "volumesnapshotclasses"+group)
}

// defineCSI creates the snapshot kinds and the classes.
func (c *Cluster) defineCSI(ctx context.Context) error {
	if err := c.AddSnapshotKinds(ctx); err != nil {
		return err
	}
	apply := c.KubectlCommand(ctx, "apply", "--server-side", "-f", "-")
	apply.Stdin = strings.NewReader(csiClasses)
	_, err := outputOf(apply)
	return err
}
