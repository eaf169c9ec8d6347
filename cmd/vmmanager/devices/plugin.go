package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/validation"
	plugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	// DefaultFolder is the folder for the sockets of kubelets and plugins.
	DefaultFolder = plugin.DevicePluginPath
	// DefaultSlots is larger than the number of pods on a node.
	DefaultSlots = 1000
	// mostSlots limits the size of the list, with a few bytes per slot, to far below the kubelet's limit.
	mostSlots = 100_000
	// nodesFolder is the folder of the nodes for pods, within the folder of the plugins.
	nodesFolder = "vmop-devices"
	// interval is the time between two checks of devices and sockets.
	interval = time.Second
	// patience is how long a kubelet may take to register a device by asking for its options, and again until it
	// requests the list.
	patience = 20 * time.Second
	// longestSocket is the maximum length of a socket's path, in bytes.
	longestSocket = 107
)

// Device is a character device to offer.
type Device struct {
	// Resource is the name that pods use to request the device, such as vmop/kvm.
	Resource string
	// Path is the path of the device on the node and in the pod, such as /dev/kvm. Its last element is the
	// device's name in /sys/class.
	Path string
	// Unusable returns the reason why an existing device can't be used, or "". nil means that it can be used.
	Unusable func() string
}

// Options configure a plugin.
type Options struct {
	Devices []Device
	// Slots is the number of pods that can use a device at the same time, 1 to 100000.
	Slots int
	// Folder is the folder of the sockets: DefaultFolder except in tests. The kubelet must see it under the same
	// path.
	Folder string
	// Sys is the mount point of sysfs: /sys except in tests.
	Sys string
	Log *slog.Logger
}

// Plugin offers devices to a kubelet.
type Plugin struct {
	offers []*offer
	nodes  string
}

// New returns a plugin. An error names the invalid device or number.
func New(o Options) (*Plugin, error) {
	if o.Slots < 1 || o.Slots > mostSlots {
		return nil, fmt.Errorf("%d slots: it must be 1 to %d", o.Slots, mostSlots)
	}
	p := &Plugin{nodes: filepath.Join(o.Folder, nodesFolder)}
	seen := map[string]bool{}
	for _, d := range o.Devices {
		file := strings.ReplaceAll(d.Resource, "/", "_")
		f := &offer{
			Device: d, slots: o.Slots, sys: o.Sys, interval: interval, patience: patience,
			log:     o.Log.With("resource", d.Resource),
			kubelet: filepath.Join(o.Folder, filepath.Base(plugin.KubeletSocket)),
			socket:  filepath.Join(o.Folder, file+".sock"), node: filepath.Join(p.nodes, file),
			why: "it has not been looked at", changed: make(chan struct{}),
		}
		if err := f.checkNames(); err != nil {
			return nil, err
		}
		if seen[d.Resource] {
			return nil, fmt.Errorf("%s exists twice", d.Resource)
		}
		seen[d.Resource] = true
		p.offers = append(p.offers, f)
	}
	return p, nil
}

// checkNames returns an error if a name is invalid.
func (f *offer) checkNames() error {
	name, inDev := strings.CutPrefix(f.Path, "/dev/")
	switch {
	case !strings.Contains(f.Resource, "/") || len(validation.IsQualifiedName(f.Resource)) > 0:
		return fmt.Errorf("%q is not the name of an extended resource, such as vmop/kvm", f.Resource)
	case !inDev || name != filepath.Clean(name) || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "*?[\\"):
		return fmt.Errorf("%q is not the path of a device, such as /dev/kvm", f.Path)
	case len(f.socket) > longestSocket:
		return fmt.Errorf("the name of the resource %s is too long for a socket: %s has more than %d bytes",
			f.Resource, f.socket, longestSocket)
	}
	return nil
}

// Run offers the devices until ctx ends, and then returns nil.
func (p *Plugin) Run(ctx context.Context) error {
	// The folder's mode keeps users of the node away from its contents.
	if err := errors.Join(os.MkdirAll(p.nodes, 0o700), os.Chmod(p.nodes, 0o700)); err != nil {
		return fmt.Errorf("folder of the devices: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range p.offers {
		g.Go(func() error { return f.runOffer(ctx) })
	}
	return g.Wait()
}

// ServeHTTP answers /readyz: whether the kubelet knows each existing device.
func (p *Plugin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/readyz" {
		http.NotFound(w, r)
		return
	}
	for _, f := range p.offers {
		if !f.isReady() {
			http.Error(w, "the kubelet does not know "+f.Resource+" yet", http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = fmt.Fprintln(w, "ok") // the client may have gone
}
