package qemuopt_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// plans calls each with the plans of all samples of the stock types and the examples.
func plans(t *testing.T, each func(*plan.Plan)) {
	t.Helper()
	library, err := vmtypes.Open("../../examples/vmtypes")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, library.Close()) })
	for _, dir := range []string{"../testdata/golden", "../../examples/vmtypes"} {
		paths, err := sample.Find(dir)
		require.NoError(t, err)
		require.NotEmpty(t, paths)
		for _, path := range paths {
			s, err := sample.Read(path)
			require.NoError(t, err)
			p, err := s.Plan(t.Context(), library)
			require.NoError(t, err)
			each(p)
		}
	}
}

// The table contains everything that the stock types and the examples use, so that all readers of the table support a
// new device.
func TestTheTableHasWhatTypesUse(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	plans(t, func(p *plan.Plan) {
		for _, o := range p.QEMU.Args {
			o = o.Structured()
			row := qemuopt.Find(o.Flag, o.Backend())
			require.NotNil(t, row, "%s has no row in options.go", o.Flag)
			if qemuopt.Flag(o.Flag).Backed {
				require.NotNil(t, qemuopt.Exactly(o.Flag, o.Value), "%s %s has no row in options.go", o.Flag, o.Value)
			}
			if o.Flag == "-device" {
				require.NotEmpty(t, qemuopt.FindDevice(o.Value).Names, "%s is not in devices.go", o.Value)
			}
			for _, property := range o.Properties {
				used[o.Flag+" "+o.Backend()+" "+property.Key] = hasRow(o, property.Key)
			}
		}
	})
	require.Greater(t, len(used), 100)
	missing := []string{}
	for property, known := range used {
		if !known {
			missing = append(missing, property)
		}
	}
	require.Empty(t, missing, "add what these can do on the host, and mean for a guest")
}

// hasRow reports whether a property has a row, or belongs to an option with the same meaning for all its properties.
func hasRow(o plan.Option, key string) bool {
	row, flag := qemuopt.Find(o.Flag, o.Backend()), qemuopt.Flag(o.Flag)
	if name, below := strings.CutPrefix(key, "file."); below && o.Flag == "-drive" {
		row, key = qemuopt.Exactly("-blockdev", "file"), name
	}
	switch o.Flag {
	case "-device", "-machine", "-blockdev", "-drive":
		return row.Property(key).Names != ""
	case "-global":
		name, _ := o.Get("property")
		return name == "" || flag.Property(name).Names != "" || qemuopt.Flag("-device").Property(name).Names != ""
	}
	return row.Property(key).Names != "" || row.Guest != "" || flag.Guest != ""
}

// Each row of the table is unique and consistent.
func TestRows(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, o := range qemuopt.Options() {
		name := o.Flag + " " + o.Backend
		require.False(t, seen[name], "%s has two rows", name)
		seen[name] = true
		require.Regexp(t, `^-[a-zA-Z][a-zA-Z_-]*$`, o.Flag)
		require.NotNil(t, qemuopt.Flag(o.Flag), "%s has a row for a backend, and none for the flag", o.Flag)
		if o.Backend != "" && o.Known && o.Flag != "-blockdev" {
			require.True(t, qemuopt.Flag(o.Flag).Backed, "%s: a policy would not look for the backend", name)
		}
		require.False(t, o.Known && strings.HasSuffix(o.Backend, "*"),
			"%s: what a family can do on the host is not known", name)
		properties := map[string]bool{}
		for _, p := range o.Properties {
			for _, key := range strings.Split(p.Names, " ") {
				require.NotEmpty(t, key, "%s: %q", name, p.Names)
				require.False(t, properties[key], "%s: %s has two rows", name, key)
				properties[key] = true
			}
			require.True(t, p.Host != qemuopt.Unknown || p.Guest != "" || p.Refers != "", "%s: %q says nothing", name,
				p.Names)
		}
	}
	for _, d := range qemuopt.Devices() {
		for _, name := range strings.Split(d.Names, " ") {
			require.False(t, seen[name], "%s has two rows", name)
			seen[name] = true
		}
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		driver, noun string
		pci          bool
	}{
		{"virtio-net-pci", "a network card", true},
		{"virtio-net-device", "a network card", false},
		{"virtio-net-ccw", "a network card", false},
		{"virtio-blk-pci-non-transitional", "a disk", true},
		{"usb-net", "a network card", false},
		{"usb-storage", "a disk", false},
		{"usb-host", "a device of the host", false},
		{"ich9-usb-uhci2", "a USB controller", true},
		{"pci-serial", "a serial port", true},
		{"vfio-pci-nohotplug", "a device of the host", true},
		{"strange-pci", "", true},
		{"strange", "", false},
	} {
		require.Equal(t, row.noun, qemuopt.FindDevice(row.driver).Noun, row.driver)
		require.Equal(t, row.pci, qemuopt.IsPCI(row.driver), row.driver)
	}
}

func TestLookingUp(t *testing.T) {
	t.Parallel()
	require.Equal(t, "-device", qemuopt.Flag("--device").Flag)
	require.Nil(t, qemuopt.Flag("-devices"))
	require.Nil(t, qemuopt.Exactly("-object", "memory-backend-epc"))
	require.Equal(t, qemuopt.RAM, qemuopt.MeaningOf("-object", "memory-backend-epc", "size"), "the family's")
	require.False(t, qemuopt.Find("-object", "memory-backend-epc").Known, "what it can do on the host is not")
	require.Equal(t, qemuopt.Unknown, qemuopt.Exactly("-object", "memory-backend-ram").Property("mem-path").Host)
	require.Equal(t, qemuopt.WritesFolder, qemuopt.Exactly("-object", "memory-backend-file").Property("mem-path").Host)
	require.Equal(t, qemuopt.Text, qemuopt.Flag("-smbios").Property("asset").Host)
	require.Equal(t, qemuopt.Opens, qemuopt.Exactly("-blockdev", "file").Property("filename").Host)
	require.Equal(t, qemuopt.Unknown, qemuopt.Exactly("-blockdev", "raw").Property("filename").Host)
	require.Equal(t, qemuopt.BlockNode, qemuopt.Reference("-blockdev", "anything", "file"))
	require.Equal(t, qemuopt.Chardev, qemuopt.Reference("-object", "rng-egd", "chardev"))
	require.Empty(t, qemuopt.Reference("-drive", "", "file"), "a name of a file")
}

// Options and backends that are missing in the table are unjudged.
func TestUnjudged(t *testing.T) {
	t.Parallel()
	for _, o := range [][2]string{{"-devices", ""}, {"-blockdev", "another"}, {"-object", "another"}} {
		require.True(t, qemuopt.Unjudged(o[0], o[1]), "%v", o)
	}
	for _, o := range [][2]string{
		{"-name", ""}, {"-blockdev", "file"}, {"-blockdev", ""}, {"-object", "memory-backend-ram"},
	} {
		require.False(t, qemuopt.Unjudged(o[0], o[1]), "%v", o)
	}
}
