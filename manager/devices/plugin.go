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
	// DefaultFolder is where kubelets and plugins have their sockets.
	DefaultFolder = plugin.DevicePluginPath
	// DefaultSlots are more than a node has pods.
	DefaultSlots = 1000
	// mostSlots keeps the list of them, of some bytes each, far below what a kubelet reads.
	mostSlots = 100_000
	// nodesFolder is the folder of the nodes that pods get, in the one of the plugins.
	nodesFolder = "vmop-devices"
	// interval is that of the looks at devices and sockets.
	interval = time.Second
	// patience is how long a kubelet may take to register a device, which it does by asking
	// for its options, and then until it asks for the list.
	patience = 20 * time.Second
	// longestSocket is how long the path of a socket can be, in bytes.
	longestSocket = 107
)

// Device is a character device that is offered.
type Device struct {
	// Resource is the name by which pods ask for it, such as vmop/kvm.
	Resource string
	// Path is that of the device on the node, and in the pod, such as /dev/kvm. Its last
	// part is the device's name in /sys/class.
	Path string
	// Unusable says why the device can't be used though it is there, "" if it can. Nil: it can.
	Unusable func() string
}

// Options are what a plugin works with.
type Options struct {
	Devices []Device
	// Slots is how many pods can have a device at the same time, 1 to 100000.
	Slots int
	// Folder is where the sockets are: DefaultFolder, but for tests. It has the same path
	// for the kubelet.
	Folder string
	// Sys is where sysfs is: /sys, but for tests.
	Sys string
	Log *slog.Logger
}

// Plugin offers devices to a kubelet.
type Plugin struct {
	offers []*offer
	nodes  string
}

// New returns a plugin. An error names the device or the number that can't be.
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
		if err := f.check(); err != nil {
			return nil, err
		}
		if seen[d.Resource] {
			return nil, fmt.Errorf("%s is there twice", d.Resource)
		}
		seen[d.Resource] = true
		p.offers = append(p.offers, f)
	}
	return p, nil
}

// check returns what is wrong with the names.
func (f *offer) check() error {
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

// Run offers the devices until ctx ends, which is no error.
func (p *Plugin) Run(ctx context.Context) error {
	// Users of the node can't reach what is in it.
	if err := errors.Join(os.MkdirAll(p.nodes, 0o700), os.Chmod(p.nodes, 0o700)); err != nil {
		return fmt.Errorf("folder of the devices: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range p.offers {
		g.Go(func() error { return f.run(ctx) })
	}
	return g.Wait()
}

// ServeHTTP answers /readyz: whether the kubelet knows each device that there is.
func (p *Plugin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/readyz" {
		http.NotFound(w, r)
		return
	}
	for _, f := range p.offers {
		if !f.ready() {
			http.Error(w, "the kubelet does not know "+f.Resource+" yet", http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = fmt.Fprintln(w, "ok") // who has asked may be gone
}
