package devices

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"vmop/test/wait"
)

// kubelet treats plugins as Kubernetes' kubelet does.
type kubelet struct {
	plugin.UnimplementedRegistrationServer
	t      *testing.T
	folder string
	server *grpc.Server
	ctx    context.Context
	end    context.CancelFunc
	// lists receives "RESOURCE: SLOTS HEALTH" for each list that a plugin sends.
	lists chan string
	// refuse returns the error for a registration, if set.
	refuse func(*plugin.RegisterRequest) error
	// mute disables the request for the list.
	mute bool
}

// start removes all sockets, as a kubelet does, and waits for plugins.
func start(t *testing.T, folder string, change ...func(*kubelet)) *kubelet {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(folder, "*.sock"))
	require.NoError(t, err)
	for _, socket := range old {
		require.NoError(t, os.RemoveAll(socket)) // the plugin may be removing it
	}
	k := &kubelet{t: t, folder: folder, server: grpc.NewServer(), lists: make(chan string, 100)}
	for _, c := range change {
		c(k)
	}
	k.ctx, k.end = context.WithCancel(t.Context())
	plugin.RegisterRegistrationServer(k.server, k)
	listener, err := net.Listen("unix", filepath.Join(folder, "kubelet.sock"))
	require.NoError(t, err)
	go func() { _ = k.server.Serve(listener) }() // until it is stopped
	t.Cleanup(k.stop)
	return k
}

// stop ends the kubelet and its connections.
func (k *kubelet) stop() {
	k.end()
	k.server.Stop()
}

// client connects to a plugin.
func (k *kubelet) client(endpoint string) plugin.DevicePluginClient {
	conn, err := grpc.NewClient("unix:"+filepath.Join(k.folder, endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err) // the only possible error is an invalid address
	}
	context.AfterFunc(k.ctx, func() { _ = conn.Close() })
	return plugin.NewDevicePluginClient(conn)
}

func (k *kubelet) Register(ctx context.Context, r *plugin.RegisterRequest) (*plugin.Empty, error) {
	if k.refuse != nil {
		if err := k.refuse(r); err != nil {
			return nil, err
		}
	}
	client := k.client(r.Endpoint)
	if _, err := client.GetDevicePluginOptions(ctx, &plugin.Empty{}, grpc.WaitForReady(true)); err != nil {
		return nil, err
	}
	if k.mute {
		k.lists <- r.ResourceName
		return &plugin.Empty{}, nil
	}
	go func() {
		stream, err := client.ListAndWatch(k.ctx, &plugin.Empty{})
		for err == nil {
			var list *plugin.ListAndWatchResponse
			if list, err = stream.Recv(); err == nil {
				k.lists <- fmt.Sprintf("%s: %d %s", r.ResourceName, len(list.Devices), list.Devices[0].Health)
			}
		}
		k.lists <- r.ResourceName + " has ended"
	}()
	return &plugin.Empty{}, nil
}

// says waits for the next list.
func (k *kubelet) says(want string) {
	k.t.Helper()
	select {
	case text := <-k.lists:
		require.Equal(k.t, want, text)
	case <-time.After(time.Minute):
		require.FailNow(k.t, "the plugin sends nothing", "%s was awaited", want)
	}
}

// node is a folder with devices.
type node struct {
	t           *testing.T
	folder, sys string
}

func newNode(t *testing.T) *node {
	t.Helper()
	folder, err := os.MkdirTemp("", "dp") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	return &node{t: t, folder: folder, sys: t.TempDir()}
}

// has adds a device of a class to the fake sysfs.
func (n *node) has(class, name string, major, minor int) {
	n.t.Helper()
	dir := filepath.Join(n.sys, "class", class, filepath.Base(name))
	require.NoError(n.t, os.MkdirAll(dir, 0o700))
	text := fmt.Sprintf("MAJOR=%d\nMINOR=%d\nDEVNAME=%s\n", major, minor, name)
	made := filepath.Join(dir, "made") // readers see the complete file, as in sysfs
	require.NoError(n.t, os.WriteFile(made, []byte(text), 0o600))
	require.NoError(n.t, os.Rename(made, filepath.Join(dir, "uevent")))
}

// lost removes a device.
func (n *node) lost(class, name string) {
	n.t.Helper()
	require.NoError(n.t, os.Remove(filepath.Join(n.sys, "class", class, name, "uevent")))
}

// runs runs a plugin with short intervals, until the test ends or end is called.
func (n *node) runs(devices ...Device) (p *Plugin, end func()) {
	n.t.Helper()
	p, err := New(Options{Devices: devices, Slots: 3, Folder: n.folder, Sys: n.sys, Log: slog.New(slog.DiscardHandler)})
	require.NoError(n.t, err)
	for _, f := range p.offers {
		f.interval, f.patience = 5*time.Millisecond, time.Minute
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	end = func() {
		cancel()
		err, first := <-ended
		require.NoError(n.t, err)
		if first {
			close(ended)
		}
	}
	n.t.Cleanup(end)
	return p, end
}

// mode returns the mode and numbers of a device for a pod.
func (n *node) mode(path string) (mode uint32, major, minor uint32) {
	n.t.Helper()
	var is unix.Stat_t
	require.NoError(n.t, unix.Stat(path, &is))
	return is.Mode, unix.Major(is.Rdev), unix.Minor(is.Rdev)
}

func kvm() Device { return Device{Resource: "vmop/kvm", Path: "/dev/kvm"} }

// answer returns the response of /readyz.
func answer(p http.Handler) string {
	r := httptest.NewRecorder()
	p.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/readyz", http.NoBody))
	return fmt.Sprint(r.Code, " ", strings.TrimSpace(r.Body.String()))
}

// A pod receives the device with its numbers, for every user, through a folder that users of the node can't access.
func TestAPodGetsTheDevice(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	n.has("misc", "net/tun", 10, 200)
	k := start(t, n.folder)
	n.runs(kvm())
	k.says("vmop/kvm: 3 Healthy")
	answer, err := k.client("vmop_kvm.sock").Allocate(t.Context(), &plugin.AllocateRequest{
		ContainerRequests: []*plugin.ContainerAllocateRequest{{DevicesIds: []string{"0"}}, {DevicesIds: []string{"2"}}},
	})
	require.NoError(t, err)
	require.Len(t, answer.ContainerResponses, 2)
	for _, container := range answer.ContainerResponses {
		require.Len(t, container.Devices, 1)
		given := container.Devices[0]
		require.Equal(t, "/dev/kvm", given.ContainerPath)
		require.Equal(t, "rw", given.Permissions)
		mode, major, minor := n.mode(given.HostPath)
		require.EqualValues(t, unix.S_IFCHR|0o666, mode)
		require.EqualValues(t, []uint32{10, 232}, []uint32{major, minor})
		mode, _, _ = n.mode(filepath.Dir(given.HostPath))
		require.EqualValues(t, unix.S_IFDIR|0o700, mode)
	}
}

// A device disappears, and returns with another number.
func TestADeviceComesAndGoes(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "vhost-net", 10, 238)
	k := start(t, n.folder)
	p, _ := n.runs(kvm(), Device{Resource: "vmop/vhost-net", Path: "/dev/vhost-net"})
	k.says("vmop/vhost-net: 3 Healthy")
	require.NoFileExists(t, filepath.Join(n.folder, "vmop_kvm.sock"), "there is none")
	require.Equal(t, "200 ok", answer(p), "what isn't there need not be known")
	r := httptest.NewRecorder()
	p.ServeHTTP(r, httptest.NewRequest(http.MethodGet, "/", http.NoBody))
	require.Equal(t, http.StatusNotFound, r.Code)

	n.has("misc", "kvm", 10, 232)
	k.says("vmop/kvm: 3 Healthy")
	client := k.client("vmop_kvm.sock")
	n.lost("misc", "kvm")
	k.says("vmop/kvm: 3 Unhealthy")
	request := &plugin.AllocateRequest{ContainerRequests: []*plugin.ContainerAllocateRequest{{}}}
	_, err := client.Allocate(t.Context(), request)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.ErrorContains(t, err, "no driver offers /dev/kvm")

	n.has("misc", "kvm", 10, 55)
	k.says("vmop/kvm: 3 Healthy")
	given, err := client.Allocate(t.Context(), request)
	require.NoError(t, err)
	_, _, minor := n.mode(given.ContainerResponses[0].Devices[0].HostPath)
	require.EqualValues(t, 55, minor)
}

// An unusable device is not offered until it becomes usable.
func TestAnUnusableDeviceIsNone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	k := start(t, n.folder)
	device := kvm()
	asked, usable := make(chan struct{}, 2), make(chan struct{})
	device.Unusable = func() string {
		select {
		case <-usable:
			return ""
		default:
		}
		select {
		case asked <- struct{}{}:
		default:
		}
		return "the CPU can't"
	}
	p, _ := n.runs(device)
	<-asked
	<-asked
	require.NoFileExists(t, filepath.Join(n.folder, "vmop_kvm.sock"))
	require.Equal(t, "200 ok", answer(p))
	close(usable)
	k.says("vmop/kvm: 3 Healthy")
}

// Kubelet and plugin find each other in any order, and after every restart.
func TestTheKubeletIsStartedAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	p, _ := n.runs(kvm())
	wait.Until(t, func() bool {
		return strings.HasPrefix(answer(p), "503 the kubelet does not know vmop/kvm")
	})
	for range 3 {
		k := start(t, n.folder)
		k.says("vmop/kvm: 3 Healthy")
		require.Equal(t, "200 ok", answer(p))
		k.stop()
		k.says("vmop/kvm has ended")
	}
}

// The plugin retries after the kubelet refuses a registration, and after it accepts one without asking for the list.
func TestAKubeletThatRefuses(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	tries := 0
	k := start(t, n.folder, func(k *kubelet) {
		k.refuse = func(*plugin.RegisterRequest) error {
			if tries++; tries < 4 {
				return errors.New("not now")
			}
			return nil
		}
	})
	n.runs(kvm())
	k.says("vmop/kvm: 3 Healthy")
}

func TestAKubeletThatForgets(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	k := start(t, n.folder, func(k *kubelet) { k.mute = true })
	p, err := New(Options{
		Devices: []Device{kvm()}, Slots: 1, Folder: n.folder, Sys: n.sys, Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	p.offers[0].interval, p.offers[0].patience = time.Millisecond, 50*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	k.says("vmop/kvm")
	k.says("vmop/kvm")
	cancel()
	require.NoError(t, <-ended)
}

// A registration that hangs delays no other device, and ends with the plugin.
func TestAKubeletThatHangs(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	n.has("misc", "vhost-net", 10, 238)
	hangs := make(chan struct{}, 1)
	k := start(t, n.folder, func(k *kubelet) {
		k.refuse = func(r *plugin.RegisterRequest) error {
			if r.ResourceName == "vmop/kvm" {
				hangs <- struct{}{}
				<-k.ctx.Done()
			}
			return nil
		}
	})
	_, end := n.runs(kvm(), Device{Resource: "vmop/vhost-net", Path: "/dev/vhost-net"})
	<-hangs
	k.says("vmop/vhost-net: 3 Healthy")
	end()
}

// A plugin that ends removes its socket. The socket of a killed plugin does not affect the next plugin.
func TestThePluginIsStartedAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "kvm", 10, 232)
	k := start(t, n.folder)
	_, end := n.runs(kvm())
	k.says("vmop/kvm: 3 Healthy")
	end()
	k.says("vmop/kvm has ended")
	socket := filepath.Join(n.folder, "vmop_kvm.sock")
	require.NoFileExists(t, socket)
	require.FileExists(t, filepath.Join(n.folder, "vmop-devices/vmop_kvm"), "containers are started again with it")

	killed, err := net.Listen("unix", socket)
	require.NoError(t, err)
	killed.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, killed.Close())
	_, end = n.runs(kvm())
	k.says("vmop/kvm: 3 Healthy")
	end()
	k.says("vmop/kvm has ended")
}

// The device's class in sysfs determines its properties.
func TestFind(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.has("misc", "net/tun", 10, 200)
	n.has("block", "loop0", 7, 0)
	n.has("other", "kvm", 9, 9)
	n.has("zero", "zero", 0, 0)
	number, err := findDevice(n.sys, "/dev/net/tun")
	require.NoError(t, err)
	require.Equal(t, unix.Mkdev(10, 200), number)
	for _, path := range []string{"/dev/tun", "/dev/loop0", "/dev/none", "/dev/zero"} {
		_, err = findDevice(n.sys, path)
		require.EqualError(t, err, "no driver offers "+path+": its module is not loaded, or there is no such device")
	}
	number, err = findDevice("/sys", "/dev/null")
	require.NoError(t, err)
	require.Equal(t, unix.Mkdev(1, 3), number)
}

// An obsolete device node is replaced.
func TestMakeNode(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	path := filepath.Join(n.folder, "null")
	for _, before := range []func() error{
		func() error { return nil },
		func() error { return nil }, // as created
		func() error { return os.Chmod(path, 0o600) },
		func() error { return errors.Join(os.Remove(path), os.WriteFile(path, []byte("text"), 0o666)) },
		func() error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) },
		func() error { return os.WriteFile(path+".new", nil, 0o666) },
	} {
		require.NoError(t, before())
		require.NoError(t, makeNode(path, unix.Mkdev(1, 3)))
		is, err := os.Lstat(path)
		require.NoError(t, err)
		require.Equal(t, os.ModeDevice|os.ModeCharDevice|0o666, is.Mode())
		f, err := os.Open(path)
		require.NoError(t, err)
		text, err := io.ReadAll(f)
		require.NoError(t, errors.Join(err, f.Close()))
		require.Empty(t, text)
	}
	require.ErrorContains(t, makeNode(filepath.Join(n.folder, "none/null"), 1), "make a device for pods: mknod ")
}

func TestWhatCannotBeOffered(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		device Device
		slots  int
		says   string
	}{
		{Device{Resource: "kvm", Path: "/dev/kvm"}, 1, `"kvm" is not the name of an extended resource, such as vmop/`},
		{Device{Resource: "vmop/../kvm", Path: "/dev/kvm"}, 1, `"vmop/../kvm" is not the name of an extended resource`},
		{Device{Resource: "vmop/kvm", Path: "kvm"}, 1, `"kvm" is not the path of a device, such as /dev/kvm`},
		{Device{Resource: "vmop/kvm", Path: "/dev/"}, 1, `"/dev/" is not the path`},
		{Device{Resource: "vmop/kvm", Path: "/dev/../etc"}, 1, `"/dev/../etc" is not the path`},
		{Device{Resource: "vmop/kvm", Path: "/dev/net//tun"}, 1, `"/dev/net//tun" is not the path`},
		{Device{Resource: "vmop/kvm", Path: "/dev/*"}, 1, `"/dev/*" is not the path`},
		{kvm(), 0, "0 slots: it must be 1 to 100000"},
		{kvm(), 100001, "100001 slots: it must be 1 to 100000"},
		{Device{Resource: "vmop/" + strings.Repeat("a", 63), Path: "/dev/kvm"}, 1, "is too long for a socket"},
	} {
		_, err := New(Options{
			Devices: []Device{c.device}, Slots: c.slots, Folder: DefaultFolder + "below/", Sys: "/sys",
			Log: slog.New(slog.DiscardHandler),
		})
		require.ErrorContains(t, err, c.says)
	}
	_, err := New(Options{
		Devices: []Device{kvm(), kvm()}, Slots: 1, Folder: DefaultFolder, Sys: "/sys",
		Log: slog.New(slog.DiscardHandler),
	})
	require.EqualError(t, err, "vmop/kvm exists twice")
}
