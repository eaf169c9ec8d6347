package cluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"vmop/internal/childprocess"
)

//go:embed node-init.sh
var nodeInit string

// node is a node of a cluster. Numbers begin at 1.
type node struct {
	c      *Cluster
	number int
}

func (n node) nodeName() string    { return fmt.Sprintf("node%d", n.number) }
func (n node) nodeAddress() string { return n.c.hostAddress(10 + n.number) }
func (n node) podRange() string    { return fmt.Sprintf("10.%d.%d.0/24", 100+n.c.Number, n.number) }
func (n node) cgroupName() string  { return n.c.namespaceName() + "-" + n.nodeName() }
func (n node) nodeDir() string     { return filepath.Join(n.c.Dir, n.nodeName()) }

// startNode starts the node's first process and connects its network.
func (n node) startNode(ctx context.Context) error {
	if err := n.writeConfiguration(); err != nil {
		return err
	}
	var routes strings.Builder
	for i := range maxNodes {
		if other := (node{n.c, i + 1}); other.number != n.number {
			fmt.Fprintln(&routes, other.podRange(), other.nodeAddress())
		}
	}
	cmd := exec.Command("/bin/sh", "-c", nodeInit)
	cmd.Env = append(os.Environ(),
		"PROGRAMS="+filepath.Join(n.c.Programs, "bin"), "PACKAGES="+filepath.Join(n.c.Programs, "root"),
		"IMAGES="+filepath.Join(n.c.Programs, "images"), "DIR="+n.nodeDir(), "NAME="+n.nodeName(),
		"CGROUP="+n.cgroupName(),
		"ADDRESS="+n.nodeAddress(), "GATEWAY="+n.c.hostAddress(1), "PODS="+n.podRange(), "ROUTES="+routes.String())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS |
			syscall.CLONE_NEWIPC,
		Setsid: true,
	}
	id, err := n.c.launchProcess(n.nodeName(), cmd)
	if err != nil {
		return err
	}
	return n.connectNode(ctx, id)
}

// connectNode creates the node's network card and adds the route to its pods.
func (n node) connectNode(ctx context.Context, id childprocess.ID) error {
	for _, words := range []string{
		fmt.Sprintf("link add %s type veth peer name eth0 netns %d", n.nodeName(), id.PID),
		"link set " + n.nodeName() + " master " + bridge + " up",
		"route replace " + n.podRange() + " via " + n.nodeAddress(),
	} {
		if err := n.c.runIP(ctx, strings.Fields(words)...); err != nil {
			return err
		}
	}
	return nil
}

// writeConfiguration writes the configuration files of the node's programs.
func (n node) writeConfiguration() error {
	for _, sub := range []string{"kubelet", "containerd", "log", "cni"} {
		if err := os.MkdirAll(filepath.Join(n.nodeDir(), sub), 0o755); err != nil {
			return fmt.Errorf("folder of %s: %w", n.nodeName(), err)
		}
	}
	admin := filepath.Join(n.c.Dir, "pki")
	for file, client := range map[string]string{"kubelet": n.nodeName(), "proxy": "proxy"} {
		text, err := os.ReadFile(filepath.Join(admin, client+".kubeconfig"))
		if err != nil {
			return fmt.Errorf("configure %s: %w", n.nodeName(), err)
		}
		if err := os.WriteFile(filepath.Join(n.nodeDir(), file+".kubeconfig"), text, 0o600); err != nil {
			return fmt.Errorf("configure %s: %w", n.nodeName(), err)
		}
	}
	for file, text := range map[string]string{
		"cni/10-bridge.conflist": cniConfig, "containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig,
		"proxy.yaml": proxyConfig,
	} {
		text = strings.NewReplacer("$PODS", n.podRange(), "$DIR", n.nodeDir(), "$PACKAGES",
			filepath.Join(n.c.Programs, "root"),
			"$ADDRESS", n.nodeAddress(), "$CGROUP", n.cgroupName(), "$CLUSTER_PODS", n.c.podNetwork()).Replace(text)
		if err := os.WriteFile(filepath.Join(n.nodeDir(), file), []byte(text), 0o600); err != nil {
			return fmt.Errorf("configure %s: %w", n.nodeName(), err)
		}
	}
	return nil
}

// A pod inherits ip_forward from its node. The kernel copies a node's value from the machine's first network namespace,
// so the node sets it to 1.
const cniConfig = `{"cniVersion": "1.0.0", "name": "test", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$PODS"}]],
            "routes": [{"dst": "0.0.0.0/0"}], "dataDir": "/run/cni"}},
  {"type": "tuning", "sysctl": {"net.ipv4.ip_forward": "1"}}]}
`

const containerdConfig = `version = 2
root = "$DIR/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + pauseImage + `"
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE scores can only rise
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$PACKAGES/usr/lib/cni"
    conf_dir = "$DIR/cni"
`

const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $ADDRESS
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
cgroupDriver: cgroupfs
cgroupRoot: /$CGROUP
failCgroupV1: false
oomScoreAdj: 0                 # -999, the default, needs CAP_SYS_RESOURCE
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
syncFrequency: 5s              # how soon a changed ConfigMap reaches a pod's files
nodeStatusUpdateFrequency: 2s
resolvConf: ""
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
`

const proxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {kubeconfig: $DIR/proxy.kubeconfig}
clusterCIDR: $CLUSTER_PODS
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
metricsBindAddress: 127.0.0.1:10249
`

// cutPower ends the node as a power cut does, and removes its network.
func (n node) cutPower(ctx context.Context) error {
	err := n.c.endProcess(ctx, n.nodeName())
	return errors.Join(err, repeatUntil(ctx, "the network card of "+n.nodeName()+" to go with it", func() error {
		if n.c.runIP(ctx, "link", "show", n.nodeName()) == nil {
			return errors.New("it is there")
		}
		return nil
	}), n.removeCgroups(ctx))
}

// removeCgroups removes the node's empty cgroups.
func (n node) removeCgroups(ctx context.Context) error {
	roots, err := filepath.Glob("/sys/fs/cgroup/*/" + n.cgroupName())
	if err != nil {
		return err
	}
	for _, root := range append(roots, "/sys/fs/cgroup/"+n.cgroupName()) {
		err := repeatUntil(ctx, "the cgroup "+root+" to be empty", func() error { return removeTree(root) })
		if err != nil {
			return err
		}
	}
	return nil
}

// removeTree removes a folder that contains only folders, such as a cgroup.
func removeTree(root string) error {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return nil // ignore folders that no longer exist
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		if rm := syscall.Rmdir(dirs[i]); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", dirs[i], rm))
		}
	}
	return err
}
