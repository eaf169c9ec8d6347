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

// offer is a device and its plugin server.
type offer struct {
	plugin.UnimplementedDevicePluginServer
	Device
	slots                      int
	sys, kubelet, socket, node string
	interval, patience         time.Duration
	log                        *slog.Logger

	// The following fields belong to run.
	server *grpc.Server
	mine   fs.FileInfo // the socket that server listens at
	said   string      // the last error that was logged

	mu      sync.Mutex
	why     string        // why the device is not usable, or ""
	seen    bool          // the device has been usable at least once
	changed chan struct{} // closed when why changes
	lists   int           // number of open list streams
	begun   func()        // called when a stream starts, unless nil
}

// runOffer performs the missing steps until ctx ends.
func (f *offer) runOffer(ctx context.Context) error {
	defer f.stopServer()
	tick := time.NewTicker(f.interval)
	defer tick.Stop()
	for {
		if f.observeDevice() {
			f.reportOnce(ctx, f.serveKubelet(ctx))
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// reportOnce logs an error once, even if it recurs.
func (f *offer) reportOnce(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != f.said && ctx.Err() == nil {
		f.log.Warn("not offered: trying again", "err", text)
	}
	f.said = text
}

// observeDevice checks the device and notifies the kubelet of a change. It reports whether there is something to offer:
// the device, or the information that the device has become unusable.
func (f *offer) observeDevice() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	why := f.prepareNode()
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

// prepareNode creates the node for pods. It returns the reason if pods can't get the device, otherwise "".
func (f *offer) prepareNode() string {
	number, err := findDevice(f.sys, f.Path)
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

// serveKubelet listens and registers with the kubelet, unless both have been done. A starting kubelet removes all
// sockets and does not know earlier plugins.
func (f *offer) serveKubelet(ctx context.Context) error {
	if f.mine == nil || !f.isOwnSocket(f.mine) {
		if err := f.listenAnew(ctx); err != nil {
			return err
		}
	}
	if f.isListed() {
		return nil
	}
	return f.registerDevice(ctx)
}

// isOwnSocket reports whether the socket is still the one that this program has created.
func (f *offer) isOwnSocket(made fs.FileInfo) bool {
	now, err := os.Lstat(f.socket)
	return err == nil && os.SameFile(made, now)
}

// listenAnew starts a server at the socket, replacing the previous server.
func (f *offer) listenAnew(ctx context.Context) error {
	f.stopServer() // comes first, because it removes the server's socket
	if err := os.Remove(f.socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket of before: %w", err)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", f.socket)
	if err != nil {
		return fmt.Errorf("listen for the kubelet: %w", err)
	}
	if f.mine, err = os.Lstat(f.socket); err != nil {
		_ = listener.Close() // it is useless
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

// stopServer ends the server and all requests of the kubelet.
func (f *offer) stopServer() {
	if f.server != nil {
		f.server.Stop()
	}
	f.server, f.mine = nil, nil
}

// registerDevice registers the device with the kubelet. A kubelet that accepts connections has already removed old
// sockets, so a socket that exists now stays. register returns when the kubelet requests the list, which it does
// immediately, or when the kubelet has gone.
func (f *offer) registerDevice(ctx context.Context) error {
	made := f.mine
	conn, err := grpc.NewClient("passthrough:kubelet", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, "unix", f.kubelet)
			if err == nil && !f.isOwnSocket(made) {
				return nil, errors.Join(errors.New("it has removed our socket"), conn.Close())
			}
			return conn, err
		}))
	if err != nil {
		return fmt.Errorf("reach the kubelet: %w", err)
	}
	defer func() { _ = conn.Close() }() // no request is pending
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
	if !f.isListed() {
		conn.WaitForStateChange(ctx, connectivity.Ready)
	}
	return nil
}

// isListed reports whether the kubelet has an open list stream.
func (f *offer) isListed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lists > 0
}

// isReady reports whether the kubelet knows the device, or the device is unusable.
func (f *offer) isReady() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.why != "" || f.lists > 0
}

// GetDevicePluginOptions returns no options to the kubelet.
func (*offer) GetDevicePluginOptions(context.Context, *plugin.Empty) (*plugin.DevicePluginOptions, error) {
	return &plugin.DevicePluginOptions{}, nil
}

// ListAndWatch sends all slots to the kubelet, first immediately and then whenever the device has become usable
// or unusable, until the kubelet or the server ends.
func (f *offer) ListAndWatch(_ *plugin.Empty, stream plugin.DevicePlugin_ListAndWatchServer) error {
	f.countStreams(1)
	defer f.countStreams(-1)
	for {
		f.mu.Lock()
		why, changed := f.why, f.changed
		f.mu.Unlock()
		if err := stream.Send(f.listSlots(why == "")); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// countStreams adds more to the number of open list streams.
func (f *offer) countStreams(more int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lists += more
	if f.begun != nil && more > 0 {
		f.begun()
		f.begun = nil
	}
}

// listSlots returns all slots.
func (f *offer) listSlots(usable bool) *plugin.ListAndWatchResponse {
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

// Allocate returns the device node for each container of a pod. It returns an error if the device is unusable,
// and the kubelet then refuses the pod.
func (f *offer) Allocate(_ context.Context, r *plugin.AllocateRequest) (*plugin.AllocateResponse, error) {
	f.observeDevice()
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
