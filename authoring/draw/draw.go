package draw

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/vmspec"
	"vmop/vmtypes"
	"vmop/vmtypes/distribution"
)

// A Source draws VMs for a type. Only one goroutine may use it.
type Source struct {
	random   *rand.Rand
	options  []vmtypes.Option
	accepted []VM
	fixed    map[string]any
}

// NewSource returns a source of VMs for a type that declares these options. The same seed results in the same VMs.
func NewSource(seed uint64, options []vmtypes.Option) *Source {
	return &Source{random: rand.New(rand.NewPCG(seed, 0)), options: options}
}

// mostAccepted is the maximum number of accepted VMs to derive others from.
const mostAccepted = 64

// Accept adds a VM that the type does not refuse. Half of the next VMs are changed copies of such VMs, because a type
// that needs certain values refuses most others.
func (s *Source) Accept(v VM) {
	if len(s.accepted) < mostAccepted {
		s.accepted = append(s.accepted, v)
	} else {
		s.accepted[s.random.IntN(mostAccepted)] = v
	}
}

// changeAccepted returns a copy of an accepted VM with some keys of another VM.
func (s *Source) changeAccepted(other VM) VM {
	v := pick(s, s.accepted...).clone()
	for _, tree := range []struct{ to, from map[string]any }{{v.Section, other.Section}, {v.Host, other.Host}} {
		for _, key := range slices.Sorted(maps.Keys(tree.to)) {
			if s.oneIn(10) {
				delete(tree.to, key)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(tree.from)) {
			if s.oneIn(4) {
				tree.to[key] = tree.from[key]
			}
		}
	}
	return v
}

// mostRepairs is the maximum number of attempts to repair a VM.
const mostRepairs = 20

// Next returns a VM that the configuration's reader accepts. It removes the values that the reader refuses.
func (s *Source) Next() VM {
	for {
		v := VM{s.drawSection("vm", reflect.TypeFor[vmspec.Spec]()), s.drawHost()}
		if options := s.drawOptions(s.options); len(options) > 0 {
			v.Section["options"] = options
		}
		if len(s.accepted) > 0 && s.oneIn(2) {
			v = s.changeAccepted(v)
		}
		maps.Copy(v.Section, s.fixed)
		for range mostRepairs {
			_, faults := v.read()
			if faults == nil {
				return v
			}
			if !s.repair(v, faults) {
				break
			}
		}
	}
}

// Fix sets these keys of the vm section in all VMs, instead of drawing values for them. The error contains the values
// that the configuration's reader refuses.
func (s *Source) Fix(section map[string]any) error {
	if _, faults := (VM{Section: section}).read(); faults != nil {
		return faults
	}
	s.fixed = section
	return nil
}

// repair removes refused values. It returns false if a refused value is fixed.
func (s *Source) repair(v VM, faults yamlfile.Faults) bool {
	for _, f := range faults {
		key, _, _ := strings.Cut(strings.TrimPrefix(f.Path, "vm."), ".")
		key, _, _ = strings.Cut(key, "[")
		if _, fixed := s.fixed[key]; fixed {
			return false
		}
		v.remove(f.Path)
	}
	return true
}

// oneIn returns true once in n times.
func (s *Source) oneIn(n int) bool { return s.random.IntN(n) == 0 }

func pick[T any](s *Source, values ...T) T { return values[s.random.IntN(len(values))] }

// drawSection draws values for some keys of a struct of package vmspec.
func (s *Source) drawSection(path string, t reflect.Type) map[string]any {
	section := map[string]any{}
	for i := range t.NumField() {
		f := t.Field(i)
		key := f.Tag.Get("yaml")
		if f.Tag.Get("vmtype") == "-" || f.Type.Kind() == reflect.Map {
			continue // hidden from types, or the options
		}
		if isCommon(path+"."+key) || s.oneIn(4) || path != "vm" && s.oneIn(3) {
			section[key] = s.drawValue(path+"."+key, f.Type)
		}
	}
	if path == "vm.drives[]" { // a disk has exactly one of these
		for _, key := range []string{"file", "device", "resource"} {
			delete(section, key)
		}
		key := pick(s, "file", "file", "device", "resource")
		section[key] = s.drawValue(path+"."+key, reflect.TypeFor[string]())
	}
	return section
}

// isCommon reports whether a key is always given, because a VM without it is rarely valid.
func isCommon(path string) bool {
	switch path {
	case "vm.network[].type", "vm.network[].ports[].host", "vm.drives[].type", "vm.kernel.image",
		"vm.network[].lease.address", "vm.network[].lease.routes[].to", "vm.network[].lease.routes[].via":
		return true
	}
	return false
}

// drawValue draws a value for the key at a path. The type determines its kind.
func (s *Source) drawValue(path string, t reflect.Type) any {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if words := vmspec.Choices(path); words != nil {
		return pick(s, words...)
	}
	if values := valuesFor(path); values != nil {
		return pick(s, values...)
	}
	switch t.Kind() {
	case reflect.Struct:
		return s.drawSection(path, t)
	case reflect.Slice:
		list := []any{}
		for range pick(s, 0, 1, 1, 1, 2, 2, 3, 5, 9, 33) {
			list = append(list, s.drawValue(path+"[]", t.Elem()))
		}
		return list
	case reflect.Bool:
		return s.oneIn(2)
	case reflect.String:
		return s.drawText()
	}
	return int64(pick(s, 1, 2, 3, 4, 7, 16))
}

// valuesFor returns typical values and limits of a key, because few random values are valid; nil for other keys.
func valuesFor(path string) []any {
	switch {
	case strings.HasPrefix(path, "vm.network"):
		return networkValues(path)
	case strings.HasPrefix(path, "vm.drives"), strings.HasPrefix(path, "vm.display"):
		return deviceValues(path)
	}
	switch path {
	case "vm.name":
		return []any{"vm", "web-1", "a b", "ü", "a,b=c", strings.Repeat("x", 200)}
	case "vm.uuid":
		return []any{"2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21"}
	case "vm.machineType":
		return []any{"q35", "pc", "pc-q35-7.2", "pc-i440fx-7.2", "virt", "microvm"}
	case "vm.cpuModel":
		return []any{"host", "max", "qemu64", "Skylake-Client,-hle,+vmx"}
	case "vm.maximumCpus", "vm.currentCpus":
		return []any{int64(1), int64(2), int64(3), int64(8), int64(64), int64(255), int64(256), int64(288)}
	case "vm.maximumRam", "vm.currentRam":
		return []any{"1 MiB", "128 MiB", "1 GiB", "3 GiB", "4097 MiB", "64 GiB", "2 TiB"}
	case "vm.rtcBase":
		return []any{"utc", "localtime", "2026-03-01T12:00:00"}
	case "vm.kernel.image", "vm.kernel.initrd":
		return []any{"/boot/vmlinuz", "/srv/a b"}
	case "vm.kernel.commandLine":
		return []any{"console=ttyS0", "root=/dev/vda ro", "a,b"}
	case "vm.serialConsole.log":
		return []any{"/var/log/vm.log", "console.log"}
	}
	return nil
}

func networkValues(path string) []any {
	switch path {
	case "vm.network[].device":
		return []any{"virtio-net-pci", "e1000e", "rtl8139", "virtio-net-device", "usb-net"}
	case "vm.network[].mac":
		return []any{"02:00:00:00:00:01", "52:54:00:ab:cd:ef"}
	case "vm.network[].bridge":
		return []any{"br0", "virbr1"}
	case "vm.network[].ifname":
		return []any{"tap0", "vm-net1"}
	case "vm.network[].net":
		return []any{"10.0.2.0/24", "192.168.7.0/28"}
	case "vm.network[].ports[].host", "vm.network[].ports[].guest":
		return []any{int64(0), int64(22), int64(80), int64(2222), int64(8080), int64(65535)}
	case "vm.network[].ports[].address":
		return []any{"127.0.0.1", "0.0.0.0", "10.0.0.1", "::1"}
	case "vm.network[].lease.address":
		return []any{"10.66.10.14/24"}
	case "vm.network[].lease.gateway", "vm.network[].lease.routes[].via":
		return []any{"10.66.10.1", "10.66.10.2"}
	case "vm.network[].lease.routes[].to":
		return []any{"10.7.0.0/16", "10.8.0.0/16"}
	case "vm.network[].lease.nameservers.addresses[]":
		return []any{"10.66.10.1", "9.9.9.9"}
	case "vm.network[].lease.nameservers.search[]":
		return []any{"example.org"}
	}
	return nil
}

func deviceValues(path string) []any {
	switch path {
	case "vm.drives[].file":
		return []any{"/srv/a.img", "/srv/b.qcow2", "/srv/with,comma.img", "disk.img", "https://example.org/cd.iso"}
	case "vm.drives[].device":
		return []any{"/dev/sdb", "/dev/disk/by-id/x"}
	case "vm.drives[].resource":
		return []any{"/dev/vdc", "/srv/r.img"}
	case "vm.drives[].size":
		return []any{"1 MiB", "8 GiB"}
	case "vm.drives[].serial":
		return []any{"one", "two.2", "a-serial-of-20-bytes"}
	case "vm.drives[].logicalBlockSize", "vm.drives[].physicalBlockSize":
		return []any{int64(512), int64(4096)}
	case "vm.drives[].rotationRate":
		return []any{int64(1), int64(7200)}
	case "vm.drives[].bootindex":
		return []any{int64(0), int64(1), int64(2), int64(7)}
	case "vm.display.spice.address", "vm.display.vnc.address":
		return []any{"127.0.0.1", "0.0.0.0", "10.0.0.1", "::1"}
	case "vm.display.outputs":
		return []any{int64(1), int64(2), int64(16)}
	case "vm.display.spice.port", "vm.display.vnc.port":
		return []any{int64(5900), int64(5901), int64(5950)}
	case "vm.display.spice.usbRedirects":
		return []any{int64(0), int64(1), int64(3), int64(14)}
	}
	return nil
}

// drawText draws a text with the characters that have a meaning for QEMU.
func (s *Source) drawText() string {
	const letters = `aZ09,,==. /:-_"'\%{}[]äé`
	runes := []rune(letters)
	text := make([]rune, pick(s, 1, 1, 3, 8, 40))
	for i := range text {
		text[i] = pick(s, runes...)
	}
	return string(text)
}

// drawOptions draws values for some options, and for all mandatory options.
func (s *Source) drawOptions(options []vmtypes.Option) map[string]any {
	drawn := map[string]any{}
	for i := range options {
		if o := &options[i]; o.Mandatory || s.oneIn(3) {
			drawn[o.Name] = s.drawAttr(&o.Attr)
		}
	}
	return drawn
}

// drawAttr draws a value for an option.
func (s *Source) drawAttr(a *vmtypes.Attr) any {
	if a.Values != nil {
		return pick(s, a.Values...)
	}
	switch a.Type {
	case "bool":
		return s.oneIn(2)
	case "int", "size":
		return s.drawNumber(a)
	case "file":
		return pick(s, "/srv/file", "file.img", "/srv/a,b")
	case "list":
		list := []any{}
		for range pick(s, 0, 1, 1, 2, 5) {
			list = append(list, s.drawAttr(a.Of))
		}
		return list
	case "dict":
		dict := map[string]any{}
		for range pick(s, 0, 1, 2) {
			dict[pick(s, "a", "b", "a-b", "c d")] = s.drawAttr(a.Of)
		}
		return dict
	case "record":
		return s.drawOptions(a.Fields)
	}
	return pick(s, s.drawText(), s.drawText(), "", "abc", "00:11:22:33:44:55", "/srv/folder")
}

// drawNumber draws a number within the bounds, preferably at or near a bound.
func (s *Source) drawNumber(a *vmtypes.Attr) int64 {
	least, most := int64(0), int64(1<<40)
	if a.Type == "int" {
		most = 70000
	}
	if a.Minimum != nil {
		least = *a.Minimum
		most = max(least, most)
	}
	if a.Maximum != nil {
		most = *a.Maximum
		least = min(least, most)
	}
	n := pick(s, least, most, least+1, most-1, least+s.random.Int64N(most-least+1), 1, 2, 4, 1<<20, 1<<30)
	return max(least, min(most, n))
}

// drawHost draws a computer. Half the time it returns an empty map, which means the default computer.
func (s *Source) drawHost() map[string]any {
	host := map[string]any{}
	if s.oneIn(2) {
		return host
	}
	if s.oneIn(2) {
		host["kvm"] = true
	}
	if s.oneIn(3) {
		name := pick(s, distribution.Names()...)
		host["files"] = []any{name}
		if strings.HasSuffix(name, "arm64") {
			host["arch"] = "aarch64"
		}
	}
	return s.addFacts(host)
}

// addFacts draws the facts that have no influence on others.
func (s *Source) addFacts(host map[string]any) map[string]any {
	facts := []struct {
		key   string
		value any
	}{
		{"cloudInitImage", "/run/vm/cloud-init.img"},
		{"sysprepImage", "/run/vm/sysprep.img"},
		{"hasDisplayPassword", true},
		{"cpus", []any{int64(0), int64(1)}},
		{"nodes", []any{
			map[string]any{"number": int64(0), "cpus": []any{int64(0)}},
			map[string]any{"number": int64(2), "cpus": []any{int64(1)}},
		}},
		{"hugePages", map[string]any{"2097152": int64(1024)}},
		{"directIO", []any{}},
		{"aio", []any{"threads", "native", "io_uring"}},
		{"machines", map[string]any{"q35": "pc-q35-7.2", "pc": "pc-i440fx-7.2"}},
	}
	for _, f := range facts {
		if s.oneIn(4) {
			host[f.key] = f.value
		}
	}
	if host["hugePages"] != nil { // a server
		host["sev"] = map[string]any{"snp": true, "cbitpos": int64(51), "reducedPhysBits": int64(1)}
		host["tdx"] = true
	}
	return host
}
