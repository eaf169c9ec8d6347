package vmspec

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// everything returns a spec with all sections, which are empty.
func everything() Spec {
	return Spec{
		Name:    "everything",
		UUID:    someUUID,
		Kernel:  &Kernel{},
		Network: []Network{{Ports: []PortForward{{Host: 8022}}}},
		Drives:  []Drive{{NBD: &NBD{}}},
		Display: &Display{Spice: &Spice{}, VNC: &VNC{}},
	}
}

func TestAVMThatIsOnlyNamed(t *testing.T) {
	t.Parallel()
	require.Equal(t, Spec{
		Name:             "tiny",
		UUID:             someUUID,
		Accelerator:      AcceleratorAuto,
		Firmware:         FirmwareUEFI,
		CPUModel:         "host",
		MaximumCPUs:      1,
		CurrentCPUs:      1,
		MaximumRAM:       GiB,
		CurrentRAM:       GiB,
		RTCBase:          "utc",
		PowerdownTimeout: new(Seconds(900)),
		Network: []Network{{
			Type: NetworkTap, Device: "virtio-net-pci", Bridge: "br0",
			MAC: MAC(someUUID, 0), Ifname: Ifname(someUUID, 0), Link: LinkUp,
		}},
		SerialConsole: &SerialConsole{Enabled: new(true)},
	}, Spec{Name: "tiny", UUID: someUUID}.WithDefaults())
}

func TestDefaultsThatDependOnWhatIsGiven(t *testing.T) {
	t.Parallel()
	cpus := func(s Spec) string {
		s = s.WithDefaults()
		return fmt.Sprintf("%d of %d", s.CurrentCPUs, s.MaximumCPUs)
	}
	require.Equal(t, "1 of 1", cpus(Spec{}))
	require.Equal(t, "4 of 4", cpus(Spec{MaximumCPUs: 4}), "as the documentation of the CRD has it")
	require.Equal(t, "2 of 2", cpus(Spec{CurrentCPUs: 2}))
	require.Equal(t, "2 of 4", cpus(Spec{MaximumCPUs: 4, CurrentCPUs: 2}))
	require.Equal(t, "8 of 8", cpus(Spec{Sockets: 2, CoresPerDie: 4}))
	require.Equal(t, "3 of 2", cpus(Spec{CurrentCPUs: 3, Sockets: 2}), "wrong, and not changed silently")

	require.Equal(t, 4*GiB, Spec{MaximumRAM: 4 * GiB}.WithDefaults().CurrentRAM)
	require.Equal(t, Seconds(0), *Spec{PowerdownTimeout: new(Seconds(0))}.WithDefaults().PowerdownTimeout)
	require.Empty(t, Spec{Network: []Network{}}.WithDefaults().Network, "an empty list means none")
	require.False(t, *Spec{SerialConsole: &SerialConsole{Enabled: new(false)}}.WithDefaults().SerialConsole.Enabled)

	unnamed := Spec{}.WithDefaults().Network[0]
	require.Empty(t, unnamed.MAC+unnamed.Ifname, "the uuid is not known")

	several := Spec{UUID: someUUID, Network: []Network{
		{Type: NetworkUser, Ports: []PortForward{{Host: 8022}, {Host: 53, Guest: 5353, Protocol: "udp"}}},
		{Type: NetworkMasquerade, MAC: "52:54:00:12:34:56"},
	}}.WithDefaults().Network
	require.Equal(t, []Network{
		{
			Type: NetworkUser, Device: "virtio-net-pci", MAC: MAC(someUUID, 0), Link: LinkUp,
			Ports: []PortForward{{Protocol: "tcp", Host: 8022, Guest: 8022}, {Protocol: "udp", Host: 53, Guest: 5353}},
		},
		{
			Type: NetworkMasquerade, Device: "virtio-net-pci", MAC: "52:54:00:12:34:56",
			Ifname: Ifname(someUUID, 1), Link: LinkUp,
		},
	}, several)

	drives := Spec{Drives: []Drive{{File: "disk.img"}, {Type: DriveIDECD}}}.WithDefaults().Drives
	require.Equal(t, []Drive{
		{Type: DriveRaw, File: "disk.img", Format: "raw", Serial: "disk"},
		{Type: DriveIDECD, Format: "raw", Bus: "ide", Serial: "cd0"},
	}, drives)

	require.Equal(t, &Display{Outputs: 1, Spice: &Spice{Port: 5900, USBRedirects: new(2)}},
		Spec{Display: &Display{Spice: &Spice{}}}.WithDefaults().Display)
}

// Serial numbers of drives are unique and readable by guests.
func TestSerials(t *testing.T) {
	t.Parallel()
	cd := func(file string) Drive { return Drive{Type: DriveIDECD, File: file} }
	for _, row := range []struct {
		drives []Drive
		want   []string
	}{
		{[]Drive{{Resource: "/dev/system-disk"}, {Device: "/dev/sdb"}}, []string{"system-disk", "sdb"}},
		{[]Drive{cd("a.iso"), {File: "a.b.qcow2"}, cd("")}, []string{"cd0", "a.b", "cd1"}},
		{
			[]Drive{{File: "x/disk.img"}, {File: "y/disk.img"}, {File: "z", Serial: "disk"}},
			[]string{"disk-0", "disk-1", "disk"},
		},
		{[]Drive{{File: "mein Rechner ä.img"}, {File: ".hidden"}}, []string{"mein_Rechner__", ".hidden"}},
		{
			[]Drive{{File: strings.Repeat("a", 30)}, {File: strings.Repeat("a", 31)}},
			[]string{strings.Repeat("a", 20), strings.Repeat("a", 18) + "-1"},
		},
	} {
		var got []string
		for _, d := range (Spec{Drives: row.drives}).WithDefaults().Drives {
			got = append(got, d.Serial)
		}
		require.Equal(t, row.want, got)
	}
}

func TestWithDefaultsIsIdempotentAndLeavesItsArgumentAlone(t *testing.T) {
	t.Parallel()
	given := everything()
	given.Options = map[string]any{"hugepages": map[string]any{"nodes": []any{int64(1)}}}
	once := given.WithDefaults()
	require.Equal(t, once, once.WithDefaults())

	// Changing the copy leaves the original unchanged.
	*once.PowerdownTimeout, *once.SerialConsole.Enabled, *once.Display.Spice.USBRedirects = 1, false, 9
	once.Kernel.Image, once.Network[0].Ports[0].Host, once.Drives[0].File, once.Display.VNC.Port = "x", 1, "x", 1
	once.Options["hugepages"].(map[string]any)["nodes"].([]any)[0] = "x"
	untouched := everything()
	untouched.Options = map[string]any{"hugepages": map[string]any{"nodes": []any{int64(1)}}}
	require.Equal(t, untouched, given)
}

func TestEveryKeyIsInTheTableOfDefaults(t *testing.T) {
	t.Parallel()
	var keys, table []string
	listKeys("vm", reflect.TypeFor[Spec](), &keys)
	for _, d := range Defaults() {
		table = append(table, d.Path)
		require.NotEmpty(t, d.Value+d.Note, "%s says neither what is used nor why nothing is", d.Path)
	}
	require.ElementsMatch(t, keys, table)
}

func TestTheTableOfDefaultsTellsTheTruth(t *testing.T) {
	t.Parallel()
	set := reflect.ValueOf(everything().WithDefaults())
	for _, d := range Defaults() {
		if d.Value == "" {
			continue
		}
		field := set
		for _, key := range strings.Split(strings.TrimPrefix(d.Path, "vm."), ".") {
			field = fieldOf(field, strings.TrimSuffix(key, "[]"))
		}
		require.Equal(t, d.Value, fmt.Sprint(field), d.Path)
	}
}

// listKeys lists the paths of a struct's yaml keys, including sections.
func listKeys(path string, t reflect.Type, keys *[]string) {
	for i := range t.NumField() {
		field := path + "." + t.Field(i).Tag.Get("yaml")
		*keys = append(*keys, field)
		of := t.Field(i).Type
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			if of.Kind() == reflect.Slice {
				field += "[]"
			}
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct {
			listKeys(field, of, keys)
		}
	}
}

// fieldOf returns the field with a yaml key, or the field of a list's first element.
func fieldOf(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("yaml") != key {
			continue
		}
		v = v.Field(i)
		for v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice {
			if v.Kind() == reflect.Slice {
				v = v.Index(0)
			} else {
				v = v.Elem()
			}
		}
		return v
	}
	panic("no key " + key)
}

func BenchmarkWithDefaultsAndCheck(b *testing.B) {
	for b.Loop() {
		everything().WithDefaults().Check()
	}
}

// WithSize returns the same machine size with and without the other defaults.
func TestWithSize(t *testing.T) {
	t.Parallel()
	for _, s := range []Spec{
		{},
		{MaximumCPUs: 4},
		{CurrentCPUs: 3},
		{Sockets: 2, CoresPerDie: 3, CurrentCPUs: 5},
		{MaximumCPUs: 4, Sockets: 3, MaximumRAM: 2 * GiB},
		{MaximumRAM: 2 * GiB, CurrentRAM: GiB},
	} {
		is, want := s.WithSize(), s.WithDefaults()
		require.Equal(t, []any{want.MaximumCPUs, want.CurrentCPUs, want.MaximumRAM, want.CurrentRAM},
			[]any{is.MaximumCPUs, is.CurrentCPUs, is.MaximumRAM, is.CurrentRAM}, "%+v", s)
	}
}
