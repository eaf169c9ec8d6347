package cluster

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"vmop/internal/childprocess"
	"vmop/test/wait"
)

const (
	maxClusters = 10
	maxNodes    = 4
)

// Options describe a cluster.
type Options struct {
	// Nodes is the number of nodes, 0 to 4. Without nodes, pods don't run, but all objects can be created. This is
	// sufficient for tests of clients and controllers, and starts faster.
	Nodes int
	// Arguments are additional arguments for programs of the control plane, by program name, such as kube-apiserver.
	// They follow the default arguments, and the last of two equal flags wins.
	Arguments map[string][]string
	// AuditPolicy determines which requests the API server records in the file AuditLog
	// (https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/). With "" it records none.
	AuditPolicy string
	// Without lists programs of the control plane that are not started.
	Without []string
	// Oldest starts the oldest supported version of Kubernetes, which is built first if necessary.
	Oldest bool
	// Dir is the folder for the cluster's state, by default a new folder. It is removed with the cluster, with all its
	// contents.
	Dir string
	// Outlives keeps the cluster running after this process ends. Otherwise the cluster is taken down, even if the
	// process was killed.
	Outlives bool
	// Log is called with a line for each step; it may be nil.
	Log func(line string)
}

// Cluster is a running cluster.
type Cluster struct {
	// Number identifies the cluster on this machine.
	Number int `json:"number"`
	// Dir contains all its state, including logs.
	Dir string `json:"dir"`
	// Programs is the folder of its programs; see [Programs].
	Programs string `json:"programs"`
	// Kubeconfig is the path of the kubeconfig of an administrator.
	Kubeconfig string `json:"kubeconfig"`
	// Processes are the processes of the control plane, and the first process of each node.
	Processes map[string]childprocess.ID `json:"processes"`
	// Arguments are the Arguments of the Options.
	Arguments map[string][]string `json:"arguments,omitempty"`
	// CSI is the folder of the programs of [Cluster.AddCSI], if that was called.
	CSI string `json:"csi,omitempty"`

	without     []string
	auditPolicy string
	log         func(string)
	leash       io.WriteCloser // to its guard, see owner.go
}

// bridge is the device that joins the nodes, in the cluster's own network.
const bridge = "kube"

// Addresses contain the cluster's number, so that a machine can reach several clusters.

// hostAddress returns an address in the network of the nodes. Number 1 is the API server.
func (c *Cluster) hostAddress(number int) string { return fmt.Sprintf("10.66.%d.%d", c.Number, number) }

// podNetwork returns the network of all pods. Each node uses a part of it.
func (c *Cluster) podNetwork() string { return fmt.Sprintf("10.%d.0.0/16", 100+c.Number) }

// serverURL returns the API server's URL.
func (c *Cluster) serverURL() string { return "https://" + c.hostAddress(1) + ":6443" }

// namespaceName returns the name of the cluster's network namespace, and the prefix of its cgroups.
func (c *Cluster) namespaceName() string { return fmt.Sprintf("kube%d", c.Number) }

// stateFile is the file in the cluster's folder with its state.
const stateFile = "cluster.json"

// Up starts a cluster. When it returns, all nodes are ready. After an error it removes everything except the folder
// with the logs, which the error names.
func Up(ctx context.Context, opts Options) (*Cluster, error) {
	if opts.Nodes < 0 || opts.Nodes > maxNodes {
		return nil, fmt.Errorf("start a cluster: %d nodes, want 0 to %d", opts.Nodes, maxNodes)
	}
	c := &Cluster{
		Dir: opts.Dir, Processes: map[string]childprocess.ID{}, Arguments: opts.Arguments,
		without: opts.Without, auditPolicy: opts.AuditPolicy, log: opts.Log,
	}
	if c.log == nil {
		c.log = func(string) {}
	}
	var err error
	if c.Programs, err = Programs(ctx, c.log); err != nil {
		return nil, err
	}
	if opts.Oldest {
		if c.Programs, err = oldestPrograms(ctx, c.Programs, c.log); err != nil {
			return nil, err
		}
	}
	if c.Dir == "" {
		if c.Dir, err = os.MkdirTemp("/var/tmp", "kube"); err != nil {
			return nil, fmt.Errorf("start a cluster: %w", err)
		}
	}
	if !opts.Outlives {
		if err := c.tieToOwner(); err != nil {
			return nil, err
		}
	}
	if err := c.startAll(ctx, opts.Nodes); err != nil {
		err = fmt.Errorf("%w (logs are in %s)", err, c.Dir)
		return nil, errors.Join(err, c.stopAll(context.WithoutCancel(ctx)), c.releaseGuard())
	}
	return c, nil
}

func (c *Cluster) startAll(ctx context.Context, nodes int) error {
	if err := c.takeNumber(ctx); err != nil {
		return err
	}
	if err := c.controlPlane(ctx, nodes); err != nil {
		return err
	}
	for i := range nodes {
		if err := (node{c, i + 1}).startNode(ctx); err != nil {
			return err
		}
	}
	for i := range nodes {
		if err := c.awaitNode(ctx, i+1); err != nil {
			return err
		}
	}
	return repeatUntil(ctx, "the default service account", func() error {
		_, err := c.Kubectl(ctx, "get", "serviceaccount", "default")
		return err
	})
}

// Open returns the cluster with its state in dir.
func Open(dir string) (*Cluster, error) {
	text, err := os.ReadFile(filepath.Join(dir, stateFile))
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	c := &Cluster{log: func(string) {}}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("find the cluster: %s: %w", dir, err)
	}
	return c, nil
}

// takeNumber reserves the first free number by creating the namespace.
func (c *Cluster) takeNumber(ctx context.Context) error {
	var err error
	for c.Number = range maxClusters {
		if err = runProgram(ctx, "ip", "netns", "add", c.namespaceName()); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("%d clusters run, or: %w", maxClusters, err)
	}
	if err := c.saveState(); err != nil {
		return err
	}
	for _, words := range []string{
		"link set lo up", "link add " + bridge + " type bridge",
		"addr add " + c.hostAddress(1) +
			"/24 dev " + bridge, "link set " + bridge + " up",
	} {
		if err := c.runIP(ctx, strings.Fields(words)...); err != nil {
			return err
		}
	}
	return nil
}

// runIP runs ip in the cluster's network.
func (c *Cluster) runIP(ctx context.Context, args ...string) error {
	return runProgram(ctx, "ip", append([]string{"-n", c.namespaceName()}, args...)...)
}

// Inside returns a command that runs in the cluster's network.
func (c *Cluster) Inside(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + c.netnsFile(), "--", name}, args...)...)
}

// OnNode returns a command that runs in the network of a running node.
func (c *Cluster) OnNode(ctx context.Context, number int, name string, args ...string) *exec.Cmd {
	first := c.Processes[node{c, number}.nodeName()].PID
	return exec.CommandContext(ctx, "nsenter", append([]string{"--target", fmt.Sprint(first), "--net", "--", name},
		args...)...)
}

// Expose lets the machine reach the API server and the pods. The machine's other networks must not use the same
// addresses.
func (c *Cluster) Expose(ctx context.Context) error {
	outer := c.namespaceName()
	for _, words := range []string{
		"link add outside type veth peer name " + outer + " netns 1",
		"link set outside master " + bridge + " up",
	} {
		if err := c.runIP(ctx, strings.Fields(words)...); err != nil {
			return err
		}
	}
	for _, words := range []string{
		"addr add " + c.hostAddress(254) + "/24 dev " + outer, "link set " + outer + " up",
		"route add " + c.podNetwork() + " via " + c.hostAddress(1),
	} {
		if err := runProgram(ctx, "ip", strings.Fields(words)...); err != nil {
			return err
		}
	}
	return nil
}

// awaitNode waits until a node is ready.
func (c *Cluster) awaitNode(ctx context.Context, number int) error {
	name := node{c, number}.nodeName()
	err := repeatUntil(ctx, name+" to be ready", func() error {
		_, err := c.Kubectl(ctx, "wait", "--for=condition=Ready", "node/"+name, "--timeout=1s")
		return err
	})
	if err == nil {
		c.log(name + " is ready")
	}
	return err
}

// CutPower immediately ends a node with everything in it.
func (c *Cluster) CutPower(ctx context.Context, number int) error {
	return node{c, number}.cutPower(ctx)
}

// Boot starts a node after CutPower.
func (c *Cluster) Boot(ctx context.Context, number int) error {
	if err := (node{c, number}).startNode(ctx); err != nil {
		return err
	}
	if err := c.awaitNode(ctx, number); err != nil || c.CSI == "" {
		return err
	}
	return node{c, number}.startCSI(ctx)
}

// Load adds an image to all nodes.
func (c *Cluster) Load(ctx context.Context, file string) error {
	g, ctx := errgroup.WithContext(ctx)
	for name, id := range c.Processes {
		if !strings.HasPrefix(name, "node") {
			continue
		}
		ctr := filepath.Join(c.Programs, "root/usr/bin/ctr")
		g.Go(func() error {
			return runProgram(ctx, "nsenter", "--target", fmt.Sprint(id.PID), "--mount", "--", ctr, "-n", "k8s.io",
				"images",
				"import", file)
		})
	}
	return g.Wait()
}

// Kubectl runs kubectl as the administrator and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return outputOf(c.KubectlCommand(ctx, args...))
}

// KubectlCommand returns the command that Kubectl runs, for callers that need its streams.
func (c *Cluster) KubectlCommand(ctx context.Context, args ...string) *exec.Cmd {
	return c.Inside(ctx, filepath.Join(c.Programs, "bin/kubectl"), append([]string{"--kubeconfig", c.Kubeconfig},
		args...)...)
}

// AwaitResources waits until the API server serves defined custom resources, such as "vms.example.test".
func (c *Cluster) AwaitResources(ctx context.Context, names ...string) error {
	args := []string{"wait", "--for=condition=Established", "--timeout=60s"}
	for _, name := range names {
		args = append(args, "crd/"+name)
	}
	return repeatUntil(ctx, "the resources "+strings.Join(names, ", "), func() error {
		// kubectl doesn't wait for the first condition
		_, err := c.Kubectl(ctx, args...)
		return err
	})
}

// Down ends the cluster and removes all its files, namespaces and devices.
func (c *Cluster) Down(ctx context.Context) error {
	if err := errors.Join(c.stopAll(ctx), c.detachLoops(ctx), os.RemoveAll(c.Dir)); err != nil {
		return err
	}
	return c.releaseGuard()
}

// stopAll ends the cluster and keeps its folder. It kills all processes, because kube-controller-manager takes long to
// end and its state is discarded.
func (c *Cluster) stopAll(ctx context.Context) error {
	var err error
	for i := range maxNodes {
		if n := (node{c, i + 1}); c.Processes[n.nodeName()] != (childprocess.ID{}) {
			err = errors.Join(err, n.cutPower(ctx))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Processes)) {
		err = errors.Join(err, c.endProcess(ctx, name))
	}
	if _, gone := os.Stat("/sys/class/net/" + c.namespaceName()); gone == nil {
		err = errors.Join(err, runProgram(ctx, "ip", "link", "del", c.namespaceName()))
	}
	err = errors.Join(err, repeatUntil(ctx, "what the cluster has made to be gone", func() error {
		if left := slices.DeleteFunc(c.Leftovers(), func(path string) bool {
			return path == c.netnsFile()
		}); len(left) > 0 {
			return fmt.Errorf("there is %s", strings.Join(left, ", "))
		}
		return nil
	}))
	if _, gone := os.Stat(c.netnsFile()); gone == nil { // last, because it frees the number for another cluster
		err = errors.Join(err, runProgram(ctx, "ip", "netns", "del", c.namespaceName()))
	}
	return err
}

// netnsFile returns the file of the cluster's network namespace.
func (c *Cluster) netnsFile() string { return "/run/netns/" + c.namespaceName() }

// launchProcess starts a process of the cluster, which outlives this process. It writes the output to a file, and saves
// the process's ID.
func (c *Cluster) launchProcess(name string, cmd *exec.Cmd) (childprocess.ID, error) {
	out, err := os.OpenFile(filepath.Join(c.Dir, name+".log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return childprocess.ID{}, fmt.Errorf("start %s: %w", name, err)
	}
	defer func() { _ = out.Close() }() // the process has inherited it
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(cmd.Environ(), "GOGC=400") // trade memory for processor time, which tests wait for
	if err := cmd.Start(); err != nil {
		return childprocess.ID{}, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // otherwise it stays a zombie
	id, err := childprocess.Identify(cmd.Process.Pid)
	if err != nil {
		return id, fmt.Errorf("start %s: %w", name, err)
	}
	c.Processes[name] = id
	return id, c.saveState()
}

// endProcess kills a process of the cluster if it runs.
func (c *Cluster) endProcess(ctx context.Context, name string) error {
	id, ok := c.Processes[name]
	if !ok {
		return nil
	}
	if err := killProcess(id); err != nil {
		return fmt.Errorf("end %s: %w", name, err)
	}
	err := repeatUntil(ctx, name+" to end", func() error {
		if id.Runs() {
			return errors.New("it runs")
		}
		return nil
	})
	if err != nil {
		return err
	}
	delete(c.Processes, name)
	return c.saveState()
}

// saveState saves everything that Down needs.
func (c *Cluster) saveState() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("note the cluster: %w", err)
	}
	if err := os.WriteFile(filepath.Join(c.Dir, stateFile), text, 0o644); err != nil {
		return fmt.Errorf("note the cluster: %w", err)
	}
	return nil
}

// repeatUntil repeats try until it succeeds.
func repeatUntil(ctx context.Context, what string, try func() error) error {
	ctx, cancel := wait.Context(ctx)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// runProgram runs a program. The error contains the program's message.
func runProgram(ctx context.Context, name string, args ...string) error {
	_, err := outputOf(exec.CommandContext(ctx, name, args...))
	return err
}

// outputOf runs a command and returns its output.
func outputOf(cmd *exec.Cmd) (string, error) {
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return stdout.String(), nil
}

func base64Of(data []byte) string { return base64.StdEncoding.EncodeToString(data) }

// Leftovers returns the names of everything on the machine that belongs to a cluster with this number.
func (c *Cluster) Leftovers() []string {
	name := c.namespaceName()
	var left []string
	for _, pattern := range []string{
		c.netnsFile(), "/sys/class/net/" + name, "/sys/fs/cgroup/" + name + "-*",
		"/sys/fs/cgroup/*/" + name + "-*",
	} {
		found, err := filepath.Glob(pattern)
		if err == nil {
			left = append(left, found...)
		}
	}
	return left
}
