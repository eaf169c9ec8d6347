package devices

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// offer is one device, and the server of it.
type offer struct {
	plugin.UnimplementedDevicePluginServer
	Device
	slots                      int
	sys, kubelet, socket, node string
	interval, patience         time.Duration
	log                        *slog.Logger

	// Only run has these.
	server *grpc.Server
	mine   fs.FileInfo // the socket that server listens at
	said   string      // the last error that was logged

	mu      sync.Mutex
	why     string        // why the device is not usable; "" if it is
	seen    bool          // it has been usable once
	changed chan struct{} // closed when why changes
	lists   int           // how many streams of lists there are
	begun   func()        // is called when one begins, unless it is nil
}

// run does what is missing until ctx ends.
func (f *offer) run(ctx context.Context) error {
	defer f.stop()
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		if f.observe() {
			f.report(ctx, f.serve(ctx))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// report logs an error once, however often it recurs.
func (f *offer) report(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.said && ctx.Err() == nil {
		f.log.Warn("not offered: trying again", "err", text)
	}
	f.said = text
}

// observe looks at the device, tells the kubelet of a change, and returns whether there is
// something to offer: the device, or that it is unusable now.
func (f *offer) observe() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	why := f.prepare()
	f.seen = f.seen || why == ""
	if why == f.why {
		return f.seen
	}
	if why == "" {
		f.log.Info("there is the device", "device", f.Path)
	} else {
		f.log.Info("there is no device for pods", "device", f.Path, "reason", why)
	}
	close(f.changed)
	f.why, f.changed = why, make(chan struct{})
	return f.seen
}

// prepare makes the node that pods get, and returns why they get none.
func (f *offer) prepare() string {
	number, err := find(f.sys, f.Path)
	if err == nil && f.Unusable != nil {
		if why := f.Unusable(); why != "" {
			return why
		}
	}
	if err == nil {
		err = makeNode(f.node, number)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// serve listens, and registers with the kubelet, unless that has been done. A kubelet that
// starts removes all sockets, and knows nothing of the plugins of before.
func (f *offer) serve(ctx context.Context) error {
	if f.mine == nil || !f.is(f.mine) {
		if err := f.listen(ctx); err != nil {
			return err
		}
	}
	if f.listing() {
		return nil
	}
	return f.register(ctx)
}

// is reports whether the socket is still the one that was made.
func (f *offer) is(made fs.FileInfo) bool {
	now, err := os.Lstat(f.socket)
	return err == nil && os.SameFile(made, now)
}

// listen starts a server at the socket, in place of the one before.
func (f *offer) listen(ctx context.Context) error {
	f.stop() // removes its socket, so this comes first
	if err := os.Remove(f.socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of before: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", f.socket)
	if err != nil {
		return fmt.Errorf("listen for the kubelet: %w", err)
	}
	if f.mine, err = os.Lstat(f.socket); err != nil {
		_ = listener.Close() // it is of no use
		return fmt.Errorf("listen for the kubelet: %w", err)
	}
	server := grpc.NewServer()
	plugin.RegisterDevicePluginServer(server, f)
	go func() {
		if err := server.Serve(listener); err != nil {
			f.log.Warn("no longer served", "err", err)
		}
	}()
	f.server = server
	return nil
}

// stop ends the server, with all that the kubelet has asked it for.
func (f *offer) stop() {
	if f.server != nil {
		f.server.Stop()
	}
	f.server, f.mine = nil, nil
}

// register makes the device known to the kubelet. One that accepts connections has removed
// what it found, so that the socket which is there then stays. It returns when the kubelet
// asks for the list, which it does at once, or is gone.
func (f *offer) register(ctx context.Context) error {
	made := f.mine
	conn, err := grpc.NewClient("passthrough:kubelet", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", f.kubelet)
			if err == nil && !f.is(made) {
				return nil, errors.Join(errors.New("it has removed our socket"), conn.Close())
			}
			return conn, err
		}))
	if err != nil {
		return fmt.Errorf("reach the kubelet: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is pending
	ctx, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	if _, err = plugin.NewRegistrationClient(conn).Register(ctx, &plugin.RegisterRequest{
		Version: plugin.Version, Endpoint: filepath.Base(f.socket), ResourceName: f.Resource,
	}); err != nil {
		return fmt.Errorf("register with the kubelet: %w", err)
	}
	f.log.Info("registered with the kubelet")
	f.mu.Lock()
	f.begun = cancel
	f.mu.Unlock()
	if !f.listing() {
		conn.WaitForStateChange(ctx, connectivity.Ready)
	}
	return nil
}

// listing reports whether the kubelet gets the list.
func (f *offer) listing() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists > 0
}

// ready reports whether the kubelet knows the device, or there is none.
func (f *offer) ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why != "" || f.lists > 0
}

// GetDevicePluginOptions answers the kubelet: there are none.
func (*offer) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch sends the kubelet all slots, again when the device has become usable or
// unusable, until the kubelet or the server ends.
func (f *offer) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	f.listed(1)
	defer f.listed(-1)
	for {
		f.mu.Lock()
		why, changed := f.why, f.changed
		f.mu.Unlock()
		if err := stream.Send(f.list(why == "")); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// listed counts a stream that begins or ends.
func (f *offer) listed(more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists += more
	if f.begun != nil && more > 0 {
		f.begun()
		f.begun = nil
	}
}

// list returns all slots.
func (f *offer) list(usable bool) *plugin.ListAndWatchResponse {
	health := plugin.Unhealthy
	if usable {
		health = plugin.Healthy
	}
	list := &plugin.ListAndWatchResponse{}
	for n := range f.slots {
		list.Devices = append(list.Devices, &plugin.Device{ID: fmt.Sprint(n), Health: health})
	}
	return list
}

// Allocate says what the containers of a pod get. Without the device it is an error, and the
// kubelet refuses the pod.
func (f *offer) Allocate(_ context.Context, r *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	f.observe()
	f.mu.Lock()
	why := f.why
	f.mu.Unlock()
	if why != "" {
		return nil, status.Error(codes.Unavailable, why)
	}
	response := &plugin.AllocateResponse{}
	for range r.ContainerRequests {
		response.ContainerResponses = append(response.ContainerResponses, &plugin.ContainerAllocateResponse{
			Devices: []*plugin.DeviceSpec{{ContainerPath: f.Path, HostPath: f.node, Permissions: "rw"}},
		})
	}
	return response, nil
}
