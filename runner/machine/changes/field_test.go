package changes

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmspec"
)

// Classes of changes of a field.
const (
	listed = "listed"
	live   = "live"
	idle   = "idle" // does not change the plan
)

// A trial is a change of the rich machine at a path: it replaces the value or calls do.
type trial struct {
	path  string
	to    any
	do    func(*vmspec.Spec)
	class string
}

// trials contains at least one trial for each field of the vm section.
var trials = []trial{
	{path: "vm.name", to: "other", class: listed},
	{path: "vm.uuid", to: "4b1c5d3e-0000-4000-8000-000000000001", class: listed},
	{path: "vm.machineType", to: "pc-q35-7.2", class: listed},
	{path: "vm.accelerator", to: vmspec.AcceleratorKVM, class: listed},
	{path: "vm.accelerator", to: vmspec.AcceleratorAuto, class: idle}, // it is tcg in these tests
	{path: "vm.firmware", to: vmspec.FirmwareBIOS, class: listed},
	{path: "vm.bootMenu", to: false, class: listed},
	{path: "vm.kernel", to: (*vmspec.Kernel)(nil), class: listed},
	{path: "vm.kernel.image", to: "/boot/other", class: listed},
	{path: "vm.kernel.initrd", to: "", class: listed},
	{path: "vm.kernel.commandLine", to: "quiet", class: listed},
	{path: "vm.useTpm", to: false, class: listed},
	{path: "vm.cpuModel", to: "qemu64", class: listed},
	{path: "vm.cpuModel", to: "host", class: idle}, // it is max without KVM
	{path: "vm.maximumCpus", to: 16, class: listed},
	{path: "vm.currentCpus", to: 8, class: live},
	{path: "vm.sockets", to: 2, class: listed},
	{path: "vm.diesPerSocket", to: 2, class: listed},
	{path: "vm.coresPerDie", to: 4, class: listed},
	{path: "vm.threadsPerCore", to: 1, class: listed},
	{path: "vm.maximumRam", to: 8 * vmspec.GiB, class: listed},
	{path: "vm.currentRam", to: 4 * vmspec.GiB, class: live},
	{path: "vm.rtcBase", to: "localtime", class: listed},
	{path: "vm.rtcClock", to: "host", class: listed},
	{path: "vm.powerdownTimeout", to: new(vmspec.Seconds(0)), class: idle},
	{path: "vm.network[0]", do: func(s *vmspec.Spec) { s.Network = slices.Delete(s.Network, 0, 3) }, class: listed},
	{path: "vm.network[0].type", do: func(s *vmspec.Spec) {
		s.Network[0].Type, s.Network[0].Bridge = vmspec.NetworkMasquerade, ""
		s.Network[0].Lease, s.Network[0].Filter = nil, nil
	}, class: listed},
	{path: "vm.network[0].device", to: "e1000e", class: listed},
	{path: "vm.network[0].link", to: vmspec.LinkDown, class: live},
	{path: "vm.network[0].mac", to: "52:54:00:00:00:01", class: listed},
	{path: "vm.network[0].bridge", to: "br1", class: listed},
	{path: "vm.network[0].ifname", to: "tap7", class: listed},
	{path: "vm.network[0].lease", do: func(s *vmspec.Spec) {
		s.Network[0].Lease, s.Network[0].Filter = nil, nil
	}, class: listed},
	{path: "vm.network[0].lease.address", to: "10.66.10.15/24", class: listed},
	{path: "vm.network[0].lease.gateway", to: "", class: listed},
	{path: "vm.network[0].lease.nameservers", to: (*vmspec.Nameservers)(nil), class: listed},
	{path: "vm.network[0].lease.nameservers.addresses[0]", to: "10.66.10.3", class: listed},
	{path: "vm.network[0].lease.nameservers.search[0]", to: "example.com", class: listed},
	{path: "vm.network[0].lease.routes[0].to", to: "10.8.0.0/16", class: listed},
	{path: "vm.network[0].lease.routes[0].via", to: "10.66.10.3", class: listed},
	{path: "vm.network[0].filter", to: new(false), class: listed},
	{path: "vm.network[1].net", to: "10.3.0.0/24", class: listed},
	{path: "vm.network[1].ports[0].address", to: "", class: listed},
	{path: "vm.network[2].hostLoopback", to: true, class: listed},
	{path: "vm.network[1].allPorts", to: (*vmspec.AllPorts)(nil), class: listed},
	{path: "vm.network[1].allPorts.keep[0]", to: 80, class: listed},
	{path: "vm.network[2].net", to: "", class: listed},
	{path: "vm.network[2].ports[1]", do: func(s *vmspec.Spec) {
		s.Network[2].Ports = s.Network[2].Ports[:1]
	}, class: live},
	{path: "vm.network[2].ports[0].protocol", to: "udp", class: live},
	{path: "vm.network[2].ports[0].address", to: "127.0.0.1", class: idle}, // already the default
	{path: "vm.network[2].ports[0].host", to: 2223, class: live},
	{path: "vm.network[2].ports[0].guest", to: 23, class: live},
	{path: "vm.drives[4]", do: func(s *vmspec.Spec) { s.Drives = s.Drives[:4] }, class: listed},
	// This drive is always missing when the machine starts.
	{path: "vm.drives[5]", do: func(s *vmspec.Spec) {
		s.Drives = append(s.Drives, vmspec.Drive{NBD: &vmspec.NBD{Host: "disks"}})
		*s = s.WithDefaults()
	}, class: idle},
	{path: "vm.drives[0].type", do: func(s *vmspec.Spec) {
		s.Drives[0].Type, s.Drives[0].Bus = vmspec.DriveIDECD, "ide"
	}, class: listed},
	{path: "vm.drives[0].bootindex", to: (*int)(nil), class: listed},
	{path: "vm.drives[1].bootindex", to: new(7), class: listed},
	{path: "vm.drives[0].file", to: "/images/other", class: listed},
	{path: "vm.drives[2].file", to: "/images/other.iso", class: live},
	{path: "vm.drives[2].file", to: "", class: live},
	{path: "vm.drives[3].file", to: "https://example.org/x.iso", class: live},
	{path: "vm.drives[1].device", to: "/dev/vg/other", class: listed},
	{path: "vm.drives[1].resource", do: func(s *vmspec.Spec) {
		s.Drives[1].Device, s.Drives[1].Resource = "", "/dev/vg/other"
	}, class: listed},
	{path: "vm.drives[0].format", to: "raw", class: listed},
	{path: "vm.drives[2].format", to: "qcow2", class: idle}, // a CD has no format
	{path: "vm.drives[2].bus", to: "scsi", class: listed},
	{path: "vm.drives[4].size", to: vmspec.GiB, class: idle},    // used only by the runner
	{path: "vm.drives[4].source", to: "debian/12", class: idle}, // used only by the runner
	{path: "vm.drives[4].sourceChecksum", to: "", class: idle},
	{path: "vm.drives[0].readOnly", to: true, class: listed},
	{path: "vm.drives[2].readOnly", to: true, class: idle}, // a CD is always read-only
	{path: "vm.drives[0].serial", to: "other", class: listed},
	{path: "vm.drives[0].cache", to: "unsafe", class: listed},
	{path: "vm.drives[0].aio", to: "threads", class: listed},
	{path: "vm.drives[0].iothread", to: vmspec.IOThread("shared"), class: listed},
	{path: "vm.drives[0].iothread", to: vmspec.IOThreadOwn, class: idle}, // the default
	{path: "vm.drives[0].discard", to: "ignore", class: listed},
	{path: "vm.drives[0].discard", to: "unmap", class: idle}, // the default
	{path: "vm.drives[0].detectZeroes", to: "on", class: listed},
	{path: "vm.drives[0].logicalBlockSize", to: 4 * vmspec.KiB, class: listed},
	{path: "vm.drives[0].physicalBlockSize", to: 4 * vmspec.KiB, class: listed},
	{path: "vm.drives[0].limits", to: &vmspec.DiskLimits{IOPS: 1}, class: live},
	{path: "vm.drives[1].limits", to: (*vmspec.DiskLimits)(nil), class: live},
	{path: "vm.drives[1].limits.iops", to: 5, class: live},
	{path: "vm.drives[1].limits.bytes", to: vmspec.Bytes(0), class: live},
	{path: "vm.drives[4].limits.iopsRead", to: 5, class: live},
	{path: "vm.drives[4].limits.iopsWrite", to: 5, class: live},
	{path: "vm.drives[4].limits.bytesRead", to: vmspec.KiB, class: live},
	{path: "vm.drives[4].limits.bytesWrite", to: vmspec.KiB, class: live},
	{path: "vm.display", to: (*vmspec.Display)(nil), class: listed},
	{path: "vm.display.outputs", to: 1, class: listed},
	{path: "vm.display.loggedInUser", to: "", class: idle},
	{path: "vm.display.withoutPassword", to: true, class: idle},
	{path: "vm.display.spice", to: (*vmspec.Spice)(nil), class: listed},
	{path: "vm.display.spice.port", to: 5912, class: listed},
	{path: "vm.display.spice.address", to: "", class: listed},
	{path: "vm.display.spice.streamingVideo", to: "", class: listed},
	{path: "vm.display.spice.usbRedirects", to: new(0), class: listed},
	{path: "vm.display.vnc", to: (*vmspec.VNC)(nil), class: listed},
	{path: "vm.display.vnc.port", to: 5912, class: listed},
	{path: "vm.display.vnc.address", to: "::1", class: listed},
	{path: "vm.serialConsole", to: (*vmspec.SerialConsole)(nil), class: listed},
	{path: "vm.serialConsole.enabled", to: new(false), class: listed},
	{path: "vm.serialConsole.log", to: "", class: listed},
	{path: "vm.options.panic", do: func(s *vmspec.Spec) { s.Options["panic"] = "none" }, class: listed},
	{path: "vm.options.watchdog", do: func(s *vmspec.Spec) { s.Options["watchdog"] = "reset" }, class: listed},
}

// fieldAt returns the value at a path below at, or the zero Value if it doesn't exist.
func fieldAt(v reflect.Value, at, path string) reflect.Value {
	v = concreteValue(v)
	if !v.IsValid() {
		return v
	}
	for p := range partsOf(at, v, v) {
		switch {
		case p.path == path:
			return p.a
		case isWithin(path, p.path):
			return fieldAt(p.a, p.path, path)
		}
	}
	return reflect.Value{}
}

// fields collects the paths of all fields of a type, without indexes.
func fields(path string, t reflect.Type, into map[string]bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if path != "vm" {
		into[path] = true
	}
	if t.Kind() == reflect.Struct {
		for i := range t.NumField() {
			fields(joinPath(path, t.Field(i).Tag.Get("yaml")), t.Field(i).Type, into)
		}
	}
}

// apply returns a machine after the trial, and false if the path doesn't exist.
func (tr trial) apply(m Machine) (Machine, bool) {
	m = copied(m)
	field := fieldAt(reflect.ValueOf(&m.VM), "vm", tr.path)
	switch {
	case tr.do != nil:
		tr.do(&m.VM)
	case field.IsValid():
		field.Set(reflect.ValueOf(tr.to).Convert(field.Type()))
	}
	return m, field.IsValid()
}

func TestEveryFieldHasATrial(t *testing.T) {
	t.Parallel()
	left := map[string]bool{}
	fields("vm", reflect.TypeFor[vmspec.Spec](), left)
	for _, tr := range trials {
		path := tr.path
		for {
			before, rest, found := strings.Cut(path, "[")
			if !found {
				break
			}
			_, rest, _ = strings.Cut(rest, "]")
			path = before + rest
			delete(left, before)
		}
		delete(left, path)
		if option, _ := strings.CutPrefix(path, "vm.options."); option != path {
			delete(left, "vm.options")
		}
	}
	maps.DeleteFunc(left, func(path string, _ bool) bool { return strings.HasPrefix(path, "vm.drives.nbd") })
	delete(left, "vm.drives.rotationRate") // the standard type refuses it
	require.Empty(t, slices.Sorted(maps.Keys(left)))
}

// Each change of the rich machine is absent from the plan, applied live, or listed as pending. The list contains no
// other changes.
func TestEveryField(t *testing.T) {
	t.Parallel()
	for _, tr := range trials {
		t.Run(tr.path+" "+tr.class, func(t *testing.T) {
			t.Parallel()
			launch, _ := launcher(t)
			running := rich()
			wanted, _ := tr.apply(running)
			require.Empty(t, wanted.VM.Check())
			before, err := launch(t.Context(), running)
			require.NoError(t, err)
			after, err := launch(t.Context(), wanted)
			require.NoError(t, err)
			got := pathsOf(pending(t, launch, running, wanted))
			differ := pathsOf(differencesBelow("", reflect.ValueOf(running), reflect.ValueOf(wanted)))
			switch tr.class {
			case idle:
				require.Empty(t, got)
				require.Equal(t, before.Text(), after.Text())
				require.Equal(t, []string{tr.path}, differ)
			case live:
				require.Empty(t, got)
				require.Equal(t, []string{tr.path}, differ)
				require.True(t, Live(before.Rules, wanted.VM)(tr.path))
			case listed:
				require.NotEqual(t, startEffect(before, running), startEffect(after, wanted))
				require.Equal(t, differ, got)
				require.Contains(t, got, tr.path)
			}
			back := pathsOf(pending(t, launch, wanted, running))
			if tr.class != live { // a change that is live in one direction may need a restart in the other
				require.Equal(t, got, back)
			}
		})
	}
}
