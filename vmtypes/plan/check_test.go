package plan_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

// Check counts everything in a plan. If there is too much, it checks nothing else.
func TestPlansAreBounded(t *testing.T) {
	t.Parallel()
	const most = plan.MaxOptions
	for what, fill := range map[string]func(p *plan.Plan, n int){
		"options":   func(p *plan.Plan, n int) { p.QEMU.Args = make([]plan.Option, n) },
		"variables": func(p *plan.Plan, n int) { p.QEMU.Env = make([]plan.Variable, n) },
		"access":    func(p *plan.Plan, n int) { p.QEMU.Access = make([]plan.Access, n) },
		"helpers":   func(p *plan.Plan, n int) { p.Helpers = make([]plan.Process, n) },
		"files":     func(p *plan.Plan, n int) { p.Files = make([]plan.CopyOnce, n) },
		"taps":      func(p *plan.Plan, n int) { p.Taps = make([]plan.Tap, n) },
		"listeners": func(p *plan.Plan, n int) { p.Listeners = make([]plan.Listener, n) },
		"sockets":   func(p *plan.Plan, n int) { p.Sockets = make([]plan.Socket, n) },
		"drives":    func(p *plan.Plan, n int) { p.Drives = make([]plan.Drive, n) },
		"rules": func(p *plan.Plan, n int) {
			for range n {
				p.Rules = append(p.Rules, plan.Password{Protocol: "vnc"})
			}
		},
	} {
		for n, want := range map[int]bool{most: false, most + 1: true} {
			p := machine()
			fill(p, n)
			require.Equal(t, want, strings.Contains(faults(p), "at most 16384 are allowed"), "%d %s", n, what)
		}
		both := machine(make([]plan.Option, most/2)...)
		fill(both, most/2+1)
		if what != "options" {
			require.Contains(t, faults(both), "the plan has 16385 options", what)
		}
	}
}

// Check finds errors outside of QEMU's options.
func TestCheckFindsWhatTheRunnerCouldNotDo(t *testing.T) {
	t.Parallel()
	helper := func(name, role string) plan.Process {
		return plan.Process{Name: name, Executable: "/bin/" + name, Role: role}
	}
	fd := func(name string) plan.Option {
		return plan.Option{Flag: "-add-fd", List: true, Properties: []plan.Property{{Key: "fd", Descriptor: name}}}
	}
	type change = func(p *plan.Plan)
	args := func(o plan.Option) change { return func(p *plan.Plan) { p.QEMU.Args = []plan.Option{o} } }
	variable := func(name, value string) change {
		return func(p *plan.Plan) { p.QEMU.Env = []plan.Variable{{Name: name, Value: value}} }
	}
	access := func(path string) change { return func(p *plan.Plan) { p.QEMU.Access = []plan.Access{{Path: path}} } }
	copied := func(f plan.CopyOnce) change { return func(p *plan.Plan) { p.Files = []plan.CopyOnce{f} } }
	sockets := func(s plan.Socket) change { return func(p *plan.Plan) { p.Sockets = []plan.Socket{s} } }
	long := plan.Option{Flag: "-append", Value: strings.Repeat("x", plan.MaxArgv/10)}
	path := "/" + strings.Repeat("x", plan.MaxSocketPath-1)
	for name, c := range map[string]struct {
		make change
		want string // "" if there is no error
	}{
		"ports of a network": {func(p *plan.Plan) {
			id := plan.Property{Key: "id", Value: "net0"}
			p.QEMU.Args = []plan.Option{{Flag: "-netdev", Value: "user", List: true, Properties: []plan.Property{id}}}
			p.Rules = plan.Rules{plan.Ports{Netdev: "net0"}}
		}, ""},
		"ports of no network": {func(p *plan.Plan) {
			p.Rules = plan.Rules{plan.Ports{Netdev: "net0"}}
		}, `hotplug.ports: there is no network backend with the id "net0"`},
		"CD drives without a bus": {func(p *plan.Plan) {
			p.Rules = plan.Rules{plan.Disks{Driver: "virtio-blk-pci", CDDriver: "scsi-cd"}}
		}, `hotplug.disks: cd_driver = "scsi-cd", cd_bus = ""; required: a driver and a bus, such as usb.0`},
		"CD drives on a bus that isn't there": {func(p *plan.Plan) {
			p.Rules = plan.Rules{plan.Disks{Driver: "virtio-blk-pci", CDDriver: "scsi-cd", CDBus: "usb.0"}}
		}, `there is no device with the id "usb"`},
		"one TPM":          {func(p *plan.Plan) { p.Helpers = []plan.Process{helper("a", plan.RoleTPM)} }, ""},
		"helpers, no role": {func(p *plan.Plan) { p.Helpers = []plan.Process{helper("a", ""), helper("b", "")} }, ""},
		"two networks": {func(p *plan.Plan) {
			p.Helpers = []plan.Process{helper("a", plan.RoleNetwork), helper("b", plan.RoleNetwork)}
		}, ""},
		"two TPMs": {func(p *plan.Plan) {
			p.Helpers = []plan.Process{helper("a", plan.RoleTPM), helper("b", ""), helper("c", plan.RoleTPM)}
		}, "the helpers a and c both have the role tpm; a machine has one"},
		"a command that is too long": {func(p *plan.Plan) {
			for range 11 {
				p.QEMU.Args = append(p.QEMU.Args, long)
			}
		}, "at most 1048576 are allowed"},
		"a command that is long": {func(p *plan.Plan) {
			for range 9 {
				p.QEMU.Args = append(p.QEMU.Args, plan.Option{Flag: "-object", Value: long.Value})
			}
		}, ""},
		"a flag cut in a character":  {args(plan.Option{Flag: "-\xff"}), "is not UTF-8"},
		"a value cut in a character": {args(plan.Option{Flag: "-x", Value: "\xff"}), "is not UTF-8"},
		"a key cut in a character":   {args(device("a", "\xff", "b")), "is not UTF-8"},
		"a property cut in a character": {
			args(device("a", "b", "\xff")), "is not UTF-8",
		},
		"NUL in a flag":  {args(plan.Option{Flag: "-\x00"}), "contains a NUL byte"},
		"NUL in a value": {args(plan.Option{Flag: "-x", Value: "\x00"}), "contains a NUL byte"},
		"a listener that is used": {func(p *plan.Plan) {
			p.Listeners, p.QEMU.Args = []plan.Listener{{Name: "net", Path: "/run/net"}}, []plan.Option{fd("net")}
		}, ""},
		"a listener that is not used": {func(p *plan.Plan) {
			p.Listeners = []plan.Listener{{Name: "net", Path: "/run/net"}}
		}, `listener "net" is not used by any option`},
		"two listeners of a name": {func(p *plan.Plan) {
			p.Listeners = []plan.Listener{{Name: "net", Path: "/run/net"}, {Name: "net", Path: "/run/other"}}
		}, `descriptor "net" is defined twice`},
		"a descriptor that is used twice": {func(p *plan.Plan) {
			p.Helpers = []plan.Process{helper("a", "")}
			p.Helpers[0].Args = []plan.Option{fd("net")}
			p.Listeners, p.QEMU.Args = []plan.Listener{{Name: "net", Path: "/run/net"}}, []plan.Option{fd("net")}
		}, `descriptor "net" is used by a and by qemu`},
		"a socket for two": {func(p *plan.Plan) {
			p.Sockets = []plan.Socket{{Role: "console", Path: "/run/a"}, {Role: "vnc", Path: "/run/a"}}
		}, "socket /run/a is meant for console and for vnc"},
		"the longest path of a socket": {sockets(plan.Socket{Role: "vnc", Path: path}), ""},
		"a copy of a relative file":    {copied(plan.CopyOnce{From: "a", To: "/b"}), `"a" is not an absolute`},
		"a copy to a relative file":    {copied(plan.CopyOnce{From: "/a", To: "b"}), `"b" is not an absolute`},
		"a kind with a slash": {
			copied(plan.CopyOnce{From: "/a", To: "/b", Kind: "c/d"}), "must have no slash",
		},
		"access by a relative path": {access("a"), "the path must be absolute"},
		"access by a detour":        {access("/a/../b"), "the path must be absolute"},
		"access":                    {access("/a/b"), ""},
		"a variable":                {variable("A_1", "="), ""},
		"a variable without a name": {variable("", "x"), "cannot be set"},
		"a variable with a digit":   {variable("1A", ""), "cannot be set"},
		"a variable with a dash":    {variable("A-B", ""), "cannot be set"},
		"NUL in a variable":         {variable("A", "\x00"), "cannot be set"},
		"too many faults": {func(p *plan.Plan) {
			for range 102 {
				p.QEMU.Env = append(p.QEMU.Env, plan.Variable{})
			}
		}, "\n2 more errors"},
		"many faults": {func(p *plan.Plan) { p.QEMU.Env = make([]plan.Variable, 100) }, "cannot be set"},
	} {
		p := machine()
		c.make(p)
		found := faults(p)
		if c.want == "" {
			require.Empty(t, found, name)
		}
		require.Contains(t, found, c.want, name)
		require.Equal(t, name == "too many faults", strings.Contains(found, "more errors"), name)
	}
}

// Drive finds a drive by the id of its device or by the name of a node, as in QEMU's reports.
func TestDriveByItsNames(t *testing.T) {
	t.Parallel()
	p := machine()
	p.Drives = []plan.Drive{
		{Index: 0, Nodes: []string{"root", "root-file"}},
		{Index: 1, Device: "data", Nodes: []string{"node1"}},
	}
	for _, c := range []struct {
		names []string
		want  int // -1 if there is no drive
	}{
		{nil, -1},
		{[]string{""}, -1},
		{[]string{"other"}, -1},
		{[]string{"root-file"}, 0},
		{[]string{"data"}, 1},
		{[]string{"", "node1"}, 1},
		{[]string{"other", "data", "root"}, 1},
	} {
		drive, found := p.Drive(c.names...)
		require.Equal(t, c.want >= 0, found, c.names)
		if found {
			require.Equal(t, c.want, drive.Index, c.names)
		}
	}
	p.Helpers = []plan.Process{{Name: "a"}, {Name: "b", Role: plan.RoleTPM}}
	require.Equal(t, "b", p.Helper(plan.RoleTPM))
	require.Empty(t, p.Helper(plan.RoleNetwork))
	p.Sockets = []plan.Socket{{Role: "console", Path: "/run/console"}}
	require.Equal(t, "/run/console", p.Socket("console"))
	require.Empty(t, p.Socket("vnc"))
}

// A replacement keeps the creation of the original option, even after several replacements.
func TestOriginOfAReplacement(t *testing.T) {
	t.Parallel()
	at := func(file string) plan.Origin { return plan.Origin{{File: file, Line: 1, Function: "launch"}} }
	made, changed := at("a"), at("a").Change(at("b"))
	replaced := at("c").Replace(changed)
	require.Equal(t, "c:1 launch, in place of the one made at a:1 launch", replaced.String())
	require.Equal(t, "d:1 launch, in place of the one made at a:1 launch", at("d").Replace(replaced).String())
	require.Equal(t, "c:1 launch, in place of the one made at a:1 launch", at("c").Replace(made).String())
	for _, origin := range []plan.Origin{made, changed, replaced} {
		for _, frame := range origin {
			text, err := frame.MarshalText()
			require.NoError(t, err)
			var back plan.Frame
			require.NoError(t, back.UnmarshalText(text))
			require.Equal(t, frame, back)
		}
	}
	p := machine(device("a"), plan.Option{Flag: "-nodefaults"})
	require.Regexp(t, `(?m)^ *-device a +  # x\.star:3 launch$`, p.Why())
	require.Regexp(t, `(?m)^ *-nodefaults$`, p.Why())
}
