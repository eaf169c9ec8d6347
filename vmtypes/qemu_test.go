package vmtypes_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/authoring/sample"
	"vmop/qmp"
	"vmop/test/wait"
	"vmop/vmspec"
	"vmop/vmtypes/plan"
)

// needHost are the types that need files, devices or memory of the host, or a newer QEMU. The tests of authoring/check
// cover them, without these.
var needHost = []string{
	"shares", "vsock", "passthrough", "ci9p", "civirtiofs", "db", "gpu", "mac", "old", "router", "snp",
}

// The real QEMU accepts the plan of every golden, and supports the changes in its rules.
func TestQEMUAcceptsGoldens(t *testing.T) {
	t.Parallel()
	paths := machines(t)
	require.GreaterOrEqual(t, len(paths), 15)
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".txtar")
		if vmType, _, _ := strings.Cut(name, "-"); slices.Contains(needHost, vmType) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, err := sample.Read(path)
			require.NoError(t, err)
			s := newSandbox(t)
			p := s.plan(g)
			q := start(t, p)
			if usesKVM(p) && !canUseKVM(t) {
				require.Contains(t, strings.ToLower(q.refusal()), "kvm",
					"without KVM, that is the only thing to complain about")
				return
			}
			q.accepts(p)
			q.followsRules(p)
			q.quits()
		})
	}
}

func usesKVM(p *plan.Plan) bool {
	return slices.ContainsFunc(p.QEMU.Args, func(o plan.Option) bool { return o.Flag == "-accel" && o.Value == "kvm" })
}

// canUseKVM asks QEMU, because a nested /dev/kvm may open but reject a CPU's registers.
func canUseKVM(t *testing.T) bool {
	probe := exec.CommandContext(t.Context(), program(t, "qemu-system-x86_64", "qemu-system-x86"),
		"-accel", "kvm", "-cpu", "host", "-nodefaults", "-display", "none", "-S", "-qmp", "stdio")
	probe.Stdin = strings.NewReader(`{"execute":"qmp_capabilities"}{"execute":"quit"}`)
	return probe.Run() == nil
}

// qemu is a paused QEMU that was started from a plan.
type qemu struct {
	t       *testing.T
	session *qmp.Session
	stderr  *bytes.Buffer // may be read after ended is closed
	ended   chan struct{}
}

// start carries out a plan like the runner: listeners, taps, helpers, and QEMU with a monitor. Everything is in a
// separate network namespace, where all ports and names of interfaces are available.
func start(t *testing.T, p *plan.Plan) *qemu {
	t.Helper()
	open := map[string]*os.File{}
	t.Cleanup(func() {
		for _, f := range open {
			f.Close()
		}
	})
	for _, l := range p.Listeners {
		listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: l.Path, Net: "unix"})
		require.NoError(t, err)
		listener.SetUnlinkOnClose(false)
		open[l.Name], err = listener.File()
		require.NoError(t, err)
		listener.Close()
		if !slices.ContainsFunc(p.Helpers, func(h plan.Process) bool { return h.Role == plan.RoleNetwork }) {
			continue
		}
		client, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: l.Path, Net: "unix"})
		require.NoError(t, err)
		open[plan.Client(l.Name)], err = client.File()
		require.NoError(t, err)
		client.Close()
	}
	near, far := socketPair(t)
	defer far.Close()
	q := &qemu{t: t, session: qmp.New(near), stderr: &bytes.Buffer{}, ended: make(chan struct{})}
	t.Cleanup(func() { q.session.Close() })
	started := make(chan error)
	go func() { started <- q.startInNamespace(p, open, far) }()
	require.NoError(t, <-started)
	return q
}

// startInNamespace keeps its thread locked, so that the thread ends with the goroutine.
func (q *qemu) startInNamespace(p *plan.Plan, open map[string]*os.File, monitor *os.File) error {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return os.NewSyscallError("make a network namespace (this test needs root): unshare", err)
	}
	if err := upLoopback(); err != nil {
		return err
	}
	for _, tap := range p.Taps {
		file, err := openTap(tap.Name)
		if err != nil {
			return err
		}
		open[tap.Name] = file
	}
	for _, helper := range p.Helpers {
		helper.Executable = program(q.t, filepath.Base(helper.Executable), helper.Name)
		if _, err := q.run(helper, open, nil); err != nil {
			return err
		}
	}
	machine := p.QEMU
	fd := strconv.Itoa(3 + len(machine.Descriptors()))
	machine.Args = append(slices.Clone(machine.Args), plan.Option{Flag: "-S"},
		plan.Option{Flag: "-chardev", Value: "socket,id=monitor,fd=" + fd}, plan.Option{
			Flag:  "-mon",
			Value: "chardev=monitor,mode=control",
		})
	wait, err := q.run(machine, open, monitor)
	if err != nil {
		return err
	}
	go func() { wait(); close(q.ended) }()
	return nil
}

// run starts a process of the plan. The end of the test kills the process.
func (q *qemu) run(p plan.Process, open map[string]*os.File, more *os.File) (wait func(), err error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(q.t.Context()))
	cmd := exec.CommandContext(ctx, p.Executable, p.Argv()...)
	cmd.Dir = p.Dir
	for _, name := range p.Descriptors() {
		cmd.ExtraFiles = append(cmd.ExtraFiles, open[name])
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if more != nil {
		cmd.ExtraFiles, cmd.Stderr = append(cmd.ExtraFiles, more), q.stderr
	}
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, err
	}
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }() // the output of the process shows the reason
	q.t.Cleanup(func() { cancel(); <-done })
	return func() { <-done }, nil
}

func socketPair(t *testing.T) (near net.Conn, far *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fds[0]), "monitor")
	defer file.Close()
	near, err = net.FileConn(file)
	require.NoError(t, err)
	return near, os.NewFile(uintptr(fds[1]), "monitor of QEMU")
}

func upLoopback() error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(socket)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return os.NewSyscallError("bring the loopback interface up: ioctl", unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, lo))
}

func openTap(name string) (*os.File, error) {
	tun, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("open /dev/net/tun", err)
	}
	request, err := unix.NewIfreq(name)
	if err != nil {
		return nil, err
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(tun, unix.TUNSETIFF, request); err != nil {
		return nil, os.NewSyscallError("make the tap "+name+": ioctl", err)
	}
	return os.NewFile(uintptr(tun), name), nil
}

// ask runs a QMP command, which must succeed, and decodes the result.
func (q *qemu) ask(command string, arguments, result any) {
	q.t.Helper()
	ctx, cancel := wait.Context(q.t.Context())
	defer cancel()
	reply, err := q.session.Run(ctx, qmp.Command{Execute: command, Arguments: arguments})
	if err != nil && q.session.Err() != nil {
		<-q.ended
		q.t.Fatalf("%s: %v; QEMU's output:\n%s", command, err, q.stderr)
	}
	require.NoError(q.t, err, command)
	if result != nil {
		require.NoError(q.t, json.Unmarshal(reply, result))
	}
}

// quits ends QEMU. QEMU may only have warned that this computer is smaller than the machine.
func (q *qemu) quits() {
	q.t.Helper()
	q.ask("quit", nil, nil)
	said := q.refusal()
	for line := range strings.Lines(said) {
		switch {
		case strings.Contains(line, "exceeds the recommended cpus supported by KVM"):
		case strings.Contains(line, "This family of AMD CPU doesn't support hyperthreading"):
		case strings.Contains(line, "Please configure -smp options properly or try enabling topoext feature."):
		default:
			q.t.Errorf("QEMU's output: %s", said)
		}
	}
}

// refusal waits for QEMU to end and returns its output.
func (q *qemu) refusal() string {
	q.t.Helper()
	wait.Receive(q.t, q.ended, "QEMU keeps running")
	return q.stderr.String()
}

// accepts checks that the machine is ready to start with everything in the plan.
func (q *qemu) accepts(p *plan.Plan) {
	q.t.Helper()
	var status struct{ Status string }
	q.ask("query-status", nil, &status)
	require.Equal(q.t, "prelaunch", status.Status)
	for _, s := range p.Sockets {
		info, err := os.Stat(s.Path)
		require.NoError(q.t, err)
		require.Equal(q.t, os.ModeSocket, info.Mode().Type(), s.Path)
	}
	var tpms []struct{ Model string }
	q.ask("query-tpm", nil, &tpms)
	require.Equal(q.t, slices.ContainsFunc(p.Helpers, func(h plan.Process) bool { return h.Name == "swtpm" }),
		len(tpms) == 1)
	for _, o := range p.QEMU.Args {
		if o.Flag != "-device" || o.ID() == "" {
			continue
		}
		want, given := o.Get("addr")
		if !given {
			continue
		}
		var got int
		q.ask("qom-get", map[string]string{"path": "/machine/peripheral/" + o.ID(), "property": "addr"}, &got)
		slot, function, _ := strings.Cut(want, ".")
		require.Equal(q.t, number(slot)<<3|number(function), got, "place of %s", o.ID())
	}
}

// number parses "0x1c"; an empty text is 0.
func number(hex string) int {
	n, err := strconv.ParseInt(strings.TrimPrefix(hex, "0x"), 16, 32)
	if err != nil {
		return 0
	}
	return int(n)
}

// followsRules makes one change for each rule.
func (q *qemu) followsRules(p *plan.Plan) {
	q.t.Helper()
	for _, rule := range p.Rules {
		switch r := rule.(type) {
		case plan.CPUs:
			q.plugCPU(r)
		case plan.Balloon:
			q.ask("balloon", map[string]int64{"value": r.Maximum}, nil)
		case plan.Medium:
			q.ask("blockdev-change-medium", map[string]string{
				"id": r.Device, "filename": p.QEMU.Executable,
				"format": "raw", "read-only-mode": "read-only",
			}, nil)
		case plan.Disk:
			q.growDisk(r)
		case plan.Limits:
			q.limitDisk(r)
		case plan.Link:
			for _, up := range []bool{false, true} {
				q.ask("set_link", map[string]any{"name": r.Device, "up": up}, nil)
			}
		case plan.Disks, plan.NICs: // see plugDevices
		case plan.Memory:
			q.ask("qom-set", map[string]any{
				"path": "/machine/peripheral/" + r.Device, "property": "requested-size",
				"value": r.Maximum - r.Base,
			}, nil)
		case plan.Password:
			q.ask("set_password", map[string]string{"protocol": r.Protocol, "password": "secret"}, nil)
		case plan.Ports:
			var said string
			q.ask("human-monitor-command", map[string]string{
				"command-line": "hostfwd_add " + r.Netdev + " tcp:127.0.0.1:0-:22",
			}, &said)
			require.Empty(q.t, said)
		default:
			q.t.Fatalf("no test for %s", rule)
		}
	}
	q.plugDevices(p)
}

// limitDisk limits the speed of a disk, and removes the limit.
func (q *qemu) limitDisk(r plan.Limits) {
	q.t.Helper()
	for _, iops := range []int{100, 0} {
		before := q.block(r.Device)
		q.ask("block_set_io_throttle", map[string]any{
			"id": before.QDev, "iops": iops, "iops_rd": 0, "iops_wr": 0, "bps": 0, "bps_rd": 0, "bps_wr": 0,
		}, nil)
		require.Equal(q.t, 100, before.Inserted.IOPS+q.block(r.Device).Inserted.IOPS, r.Device)
	}
}

func (q *qemu) plugCPU(r plan.CPUs) {
	q.t.Helper()
	var cpus []struct {
		Type    string
		Props   map[string]any
		QOMPath string `json:"qom-path"`
	}
	q.ask("query-hotpluggable-cpus", nil, &cpus)
	require.Len(q.t, cpus, r.Maximum)
	for i := len(cpus) - 1; i >= 0; i-- {
		if c := cpus[i]; c.QOMPath == "" {
			c.Props["driver"], c.Props["id"] = c.Type, strings.Replace(r.ID, "%d", "1", 1)
			q.ask("device_add", c.Props, nil)
			return
		}
	}
	q.t.Fatal("no CPU can be plugged in")
}

// growDisk grows a disk, which is an image of this test, by 1 MiB.
func (q *qemu) growDisk(r plan.Disk) {
	q.t.Helper()
	before := q.block(r.Device).Inserted
	size := before.Image.Size + vmspec.MiB
	q.ask("block_resize", map[string]any{"node-name": before.Node, "size": size}, nil)
	require.Equal(q.t, size, q.block(r.Device).Inserted.Image.Size, "size of %s", r.Device)
}

// block is a block device, as query-block returns it.
type block struct {
	QDev     string
	Inserted struct {
		Node  string `json:"node-name"`
		IOPS  int
		Image struct {
			Size vmspec.Bytes `json:"virtual-size"`
		}
	}
}

// block returns the block device of a device.
func (q *qemu) block(device string) block {
	q.t.Helper()
	var blocks []block
	q.ask("query-block", nil, &blocks)
	for _, b := range blocks {
		if b.QDev == device || strings.HasPrefix(b.QDev, "/machine/peripheral/"+device+"/") {
			return b
		}
	}
	q.t.Fatalf("there is no disk %s", device)
	return block{}
}

// plugDevices attaches a disk and a network card to ports that are reserved for them, or to the bus of a machine that
// needs no such ports. It returns early if the machine supports neither.
func (q *qemu) plugDevices(p *plan.Plan) {
	q.t.Helper()
	var bus, other string
	for _, o := range p.QEMU.Args {
		switch {
		case o.Flag == "-machine" && (o.Value == "pc" || strings.HasPrefix(o.Value, "pc-i440fx")):
			bus = "pci.0"
		case o.ID() == "hotplug0":
			bus = o.ID()
		case o.ID() == "hotplug1":
			other = o.ID()
		}
	}
	if bus == "" {
		return
	}
	q.ask("blockdev-add", map[string]string{"driver": "null-co", "node-name": "plugged"}, nil)
	q.ask("device_add", map[string]string{"driver": "virtio-blk-pci", "id": "plugged", "drive": "plugged", "bus": bus},
		nil)
	if other != "" {
		q.ask("netdev_add", map[string]string{"type": "user", "id": "another"}, nil)
		card := map[string]string{"driver": "virtio-net-pci", "id": "card", "netdev": "another", "bus": other}
		q.ask("device_add", card, nil)
	}
}
