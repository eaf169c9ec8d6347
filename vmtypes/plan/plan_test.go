package plan_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmtypes/plan"
)

func device(driver string, props ...string) plan.Option {
	o := plan.Option{
		Flag: "-device", Value: driver, List: true,
		Origin: plan.Origin{{File: "x.star", Line: 3, Function: "launch"}},
	}
	for i := 0; i < len(props); i += 2 {
		o.Properties = append(o.Properties, plan.Property{Key: props[i], Value: props[i+1]})
	}
	return o
}

func machine(options ...plan.Option) *plan.Plan {
	return &plan.Plan{Type: "test", QEMU: plan.Process{Name: "qemu", Executable: "/usr/bin/qemu", Args: options}}
}

func faults(p *plan.Plan) string {
	var lines []string
	for _, f := range p.Check() {
		lines = append(lines, f.String())
	}
	return strings.Join(lines, "\n")
}

func TestWordsDoubleCommasInListsOnly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		option plan.Option
		want   []string
	}{
		"flag":      {plan.Option{Flag: "-nodefaults"}, []string{"-nodefaults"}},
		"raw value": {plan.Option{Flag: "-append", Value: "a,b"}, []string{"-append", "a,b"}},
		"list": {
			device("virtio-blk-pci", "serial", "a,b"),
			[]string{"-device", "virtio-blk-pci,serial=a,,b"},
		},
		"value in list": {device("x,y=z"), []string{"-device", "x,,y=z"}},
		"properties only": {plan.Option{
			Flag: "-name", List: true,
			Properties: []plan.Property{{Key: "guest", Value: "vm"}},
		}, []string{"-name", "guest=vm"}},
		"empty list": {plan.Option{Flag: "-boot", List: true}, []string{"-boot", ""}},
	} {
		require.Equal(t, c.want, c.option.Words(func(string) string { return "" }), name)
	}
}

func TestDescriptorsAreNumberedInOrderOfUse(t *testing.T) {
	t.Parallel()
	netdev := func(id, tap string) plan.Option {
		return plan.Option{
			Flag: "-netdev", Value: "tap", List: true,
			Properties: []plan.Property{{Key: "id", Value: id}, {Key: "fd", Descriptor: tap}},
		}
	}
	p := machine(netdev("net0", "vmtap1"), netdev("net1", "vmtap0"))
	p.Taps = []plan.Tap{{Name: "vmtap0", Bridge: "br0"}, {Name: "vmtap1", Bridge: "br0"}}
	require.Empty(t, faults(p))
	require.Equal(t, []string{"vmtap1", "vmtap0"}, p.QEMU.Descriptors())
	require.Equal(t, []string{"-netdev", "tap,id=net0,fd=3", "-netdev", "tap,id=net1,fd=4"}, p.QEMU.Argv())
}

// Each queue of a tap has a number, and an option must use all queues.
func TestQueuesOfATapAreNumbered(t *testing.T) {
	t.Parallel()
	p := machine(plan.Option{
		Flag: "-netdev", Value: "tap", List: true,
		Properties: []plan.Property{{Key: "id", Value: "net0"}, {Key: "fds", Descriptor: "lan", Queues: 3}},
	}, plan.Option{
		Flag: "-netdev", Value: "tap", List: true,
		Properties: []plan.Property{{Key: "id", Value: "net1"}, {Key: "fd", Descriptor: "wan"}},
	})
	p.Taps = []plan.Tap{{Name: "lan", Bridge: "br0", Queues: 3}, {Name: "wan", Subnet: "auto", MAC: "x"}}
	require.Empty(t, faults(p))
	require.Equal(t, []string{"-netdev", "tap,id=net0,fds=3:4:5", "-netdev", "tap,id=net1,fd=6"}, p.QEMU.Argv())
	require.Contains(t, p.Text(), "\ntap lan bridge=br0 queues=3\n")
	require.Contains(t, p.Text(), ",fds=<lan>:<lan/1>:<lan/2>\n")
	b, err := p.JSON()
	require.NoError(t, err)
	var back plan.Plan
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, p.Text(), back.Text())
	p.Taps[0].Queues = 2
	require.Contains(t, faults(p), `qemu wants descriptor "lan/2", but no part has a tap or a listener of that name`)
	p.Taps[0].Queues = 257
	require.Contains(t, faults(p), `tap "lan": queues = 257, but must be 1 to 256`)
}

func TestCheckFindsWhatQEMUWouldFindLate(t *testing.T) {
	t.Parallel()
	withTap := machine()
	withTap.Taps = []plan.Tap{{Name: "a-name-of-16-byte", Bridge: "br0"}}
	wantsTap := machine(plan.Option{
		Flag: "-netdev", Value: "tap", List: true,
		Properties: []plan.Property{{Key: "fd", Descriptor: "missing"}},
	})
	noExecutable := machine()
	noExecutable.QEMU.Executable = ""
	longSocket := machine()
	longSocket.Sockets = []plan.Socket{{Role: "console", Path: "/" + strings.Repeat("x", plan.MaxSocketPath)}}
	noCPU := machine()
	noCPU.Helpers = []plan.Process{{Name: "swtpm", Executable: "/bin/swtpm", CPUs: []int{-1}}}
	rules := func(r ...plan.Rule) *plan.Plan { p := machine(); p.Rules = r; return p }
	twice := rules(plan.Password{Protocol: "vnc"}, plan.Password{Protocol: "vnc"})
	for name, c := range map[string]struct {
		plan *plan.Plan
		want string
	}{
		"no executable": {noExecutable, "qemu has no executable"},
		"duplicate id": {
			machine(device("a", "id", "x"), device("b", "id", "x")),
			`the device "x" is already defined at x.star:3 launch`,
		},
		"missing chardev": {
			machine(device("virtserialport", "chardev", "nope")),
			"there is no chardev of that name",
		},
		"missing drive": {
			machine(device("virtio-blk-pci", "drive", "nope")),
			"there is no block node of that name",
		},
		"missing object":     {machine(device("virtio-rng-pci", "rng", "nope")), "there is no object of that name"},
		"paused":             {machine(plan.Option{Flag: "-S"}), "the runner starts the machine paused by itself"},
		"paused, two dashes": {machine(plan.Option{Flag: "--S"}), "the runner starts the machine paused by itself"},
		"monitor": {
			machine(plan.Option{Flag: "-qmp", Value: "stdio"}),
			"the runner makes the monitor by itself",
		},
		"NUL":          {machine(device("a", "b", "c\x00d")), "contains a NUL byte"},
		"empty option": {machine(plan.Option{Flag: "-boot", List: true}), "neither a value nor properties"},
		"long word":    {machine(device("a", "b", strings.Repeat("c", plan.MaxWord))), "Linux allows"},
		"many options": {machine(make([]plan.Option, plan.MaxOptions+1)...), "at most 16384 are allowed"},
		"unused tap":   {withTap, "is not used by any option"},
		"long tap":     {withTap, "1 to 15 bytes"},
		"unknown tap":  {wantsTap, "no part has a tap or a listener of that name"},
		"long socket":  {longSocket, "unix sockets allow 107"},
		"no balloon":   {rules(plan.Balloon{Device: "balloon0", Maximum: 1}), `no device with the id "balloon0"`},
		"cpu pattern":  {rules(plan.CPUs{Boot: 1, Maximum: 2, ID: "cpu-%s"}), "must contain one %d"},
		"cpu bounds":   {rules(plan.CPUs{Boot: 2, Maximum: 1, ID: "cpu-%d"}), "1 <= boot <= maximum"},
		"no medium":    {rules(plan.Medium{Device: "cd0"}), `no device with the id "cd0"`},
		"protocol":     {rules(plan.Password{Protocol: "rdp"}), "must be spice or vnc"},
		"rule twice":   {twice, "is given twice"},
		"no disk":      {rules(plan.Disk{Device: "disk0"}), `no device with the id "disk0"`},
		"no memory": {
			rules(plan.Memory{Device: "mem0", Base: 1, Maximum: 2, Block: 1}),
			`no device with the id "mem0"`,
		},
		"memory bounds": {
			rules(plan.Memory{Device: "mem0", Base: 2, Maximum: 1, Block: 1}),
			"1 <= base <= maximum",
		},
		"affinity twice": {
			rules(plan.Affinity{CPUs: [][]int{{0}}}, plan.Affinity{CPUs: [][]int{{1}}}),
			"affinity 0=0 and affinity 0=1 would both place the guest's CPUs; a machine can have one of them",
		},
		"affinity to no CPU": {
			rules(plan.Affinity{CPUs: [][]int{{0}, {-1, 8192}}}),
			"hotplug.affinity: cpus[1]: the host can't have a CPU 8192; the number must be 0 to 8191",
		},
		"no CPU": {noCPU, "swtpm: the host can't have a CPU -1; the number must be 0 to 8191"},
		"memory two ways": {
			rules(plan.Memory{Device: "m"}, plan.Balloon{Device: "b"}),
			"would both follow vm.currentRam",
		},
	} {
		require.Contains(t, faults(c.plan), c.want, name)
	}
}

// The shell form contains the numbers that the descriptors would have.
func TestShellFormNumbersDescriptors(t *testing.T) {
	t.Parallel()
	netdev := func(id, tap string) plan.Option {
		return plan.Option{
			Flag: "-netdev", Value: "tap", List: true,
			Properties: []plan.Property{{Key: "id", Value: id}, {Key: "fd", Descriptor: tap}},
		}
	}
	text := machine(netdev("a", "lan"), netdev("b", "wan")).Shell()
	require.Contains(t, text, "-netdev tap,id=a,fd=3")
	require.Contains(t, text, "-netdev tap,id=b,fd=4")
}

// The backend is the first value, or the property with the same meaning.
func TestBackendOfAnOption(t *testing.T) {
	t.Parallel()
	driver := []plan.Property{{Key: "driver", Value: "virtio-rng-pci"}}
	require.Equal(t, "usb-kbd", plan.Option{Flag: "-device", Value: "usb-kbd", List: true}.Backend())
	require.Equal(t, "virtio-rng-pci", plan.Option{Flag: "-device", List: true, Properties: driver}.Backend())
	require.Empty(t, plan.Option{Flag: "-rtc", List: true, Properties: driver}.Backend(), "it has none")
	require.Empty(t, plan.Option{Flag: "-unknown", List: true, Properties: driver}.Backend())
}

// A change follows the creation in the origin, unless the place of the change is unknown.
func TestOriginOfAChange(t *testing.T) {
	t.Parallel()
	at := func(line int) plan.Origin { return plan.Origin{{File: "x.star", Line: line, Function: "launch"}} }
	made := at(1)
	require.Equal(t, made, made.Change(nil))
	changed := made.Change(at(2))
	require.Len(t, changed, 2)
	require.Equal(t, plan.Changed, changed[1].Step)
	require.Equal(t, at(1), made, "it stays")
	require.Equal(t, changed, changed.Change(at(2)), "a loop")
	require.Len(t, changed.Change(at(3)), 3)
}

// Names of taps must be valid names of interfaces; the test checks each rule separately.
func TestNamesOfTaps(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"vmtap0": true, "fifteen-bytes-x": true, "sixteen-bytes-xx": false, "": false, "a/b": false, "a b": false,
		"a\x01b": false,
	} {
		p := machine(plan.Option{
			Flag: "-netdev", Value: "tap", List: true, Properties: []plan.Property{{Key: "fd", Descriptor: name}},
		})
		p.Taps = []plan.Tap{{Name: name, Bridge: "br0"}}
		require.Equal(t, !want, strings.Contains(faults(p), "the name of an interface has 1 to 15 bytes"), "%q", name)
	}
}

// The length limit of sockets only applies to paths of sockets.
func TestPathsOfSockets(t *testing.T) {
	t.Parallel()
	long := "/" + strings.Repeat("x", plan.MaxSocketPath)
	for text, want := range map[string]bool{
		"-chardev socket,id=c,path=/run/a": true, "-chardev socket,id=c,path=" + long: false,
		"-chardev file,id=c,path=" + long: true, "-fsdev local,id=c,path=" + long: true,
	} {
		flag, value, _ := strings.Cut(text, " ")
		found := faults(machine(plan.Option{Flag: flag, Value: value}))
		require.Equal(t, !want, strings.Contains(found, "unix sockets allow"), text)
	}
}

// In a POSIX shell, the output of Shell starts the helpers, and passes the intended words to QEMU.
func TestShellFormMeansTheSame(t *testing.T) {
	t.Parallel()
	p := machine(device("x", "serial", `it's $(id) "quoted"`, "empty", ""),
		plan.Option{Flag: "-append", Value: "a\nb *"})
	p.QEMU.Executable = "/usr/bin/printf"
	p.QEMU.Args = append([]plan.Option{{Flag: `%s\0`}}, p.QEMU.Args...)
	p.Helpers = []plan.Process{{Name: "helper", Executable: "/bin/true"}}
	require.Regexp(t, `^/bin/true &\n/usr/bin/printf [^&]*$`, p.Shell())
	out, err := exec.CommandContext(t.Context(), "sh", "-c", p.Shell()).Output()
	require.NoError(t, err)
	require.Equal(t, p.QEMU.Argv()[1:], strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"))
}

func TestJSONNamesRulesAndOrigins(t *testing.T) {
	t.Parallel()
	p := machine(device("virtio-balloon-pci", "id", "balloon0"))
	p.Rules = plan.Rules{plan.Balloon{Device: "balloon0", Maximum: 1024}}
	b, err := p.JSON()
	require.NoError(t, err)
	var back struct {
		QEMU struct {
			Args []struct{ Words, Origin []string }
		}
		Rules []map[string]map[string]any
	}
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, []string{"-device", "virtio-balloon-pci,id=balloon0"}, back.QEMU.Args[0].Words)
	require.Equal(t, []string{"x.star:3 launch"}, back.QEMU.Args[0].Origin)
	require.InEpsilon(t, 1024, back.Rules[0]["balloon"]["maximum"], 0)
}

// CPU numbers are sorted and printed in Linux's notation, and survive JSON.
func TestWhereProcessesAndCPUsRun(t *testing.T) {
	t.Parallel()
	p := machine()
	p.QEMU.CPUs = []int{8, 1, 0, 2, 5, 5, 6}
	p.Rules = plan.Rules{plan.Affinity{CPUs: [][]int{{3}, nil, {5, 4}}}}
	require.Empty(t, faults(p))
	require.Contains(t, p.Text(), "\n    on CPUs 0-2,5-6,8\n")
	require.Contains(t, p.Text(), "\nrule affinity 0=3 2=4-5\n")
	require.Contains(t, p.Shell(), "taskset -c 0-2,5-6,8 /")
	b, err := p.JSON()
	require.NoError(t, err)
	var back plan.Plan
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, p.Rules, back.Rules)
	require.Equal(t, p.QEMU.CPUs, back.QEMU.CPUs)
}

func TestBlameFindsTheOptionQEMUComplainsAbout(t *testing.T) {
	t.Parallel()
	p := machine(device("virtio-blk-pci"), device("virtio-blk-pci", "drive", "a,b")).QEMU
	require.Equal(t, &p.Args[1], p.Blame("qemu-system-x86_64: -device virtio-blk-pci,drive=a,,b: Can't find it\n"))
	require.Equal(t, &p.Args[0], p.Blame("qemu-system-x86_64: -device virtio-blk-pci: drive property not set"))
	require.Nil(t, p.Blame("qemu-system-x86_64: terminating on signal 15"))
	require.Nil(t, p.Blame("qemu-system-x86_64: unsupported machine type\n"), "there is no -machine")
	p.Args = append(p.Args, plan.Option{Flag: "-machine", Value: "q36"}, plan.Option{Flag: "-cpu", Value: "a"},
		plan.Option{Flag: "-cpu", Value: "b"})
	require.Equal(t, "q36", p.Blame("qemu-system-x86_64: unsupported machine type\nUse -machine help to list "+
		"supported machines\n").Value)
	require.Nil(t, p.Blame("qemu-system-x86_64: unable to find CPU model 'b'"), "there are two")
}

func TestNamesAndValuesThatWouldBeMisread(t *testing.T) {
	t.Parallel()
	require.Equal(t, `qemu: the value "-vnc unix:/a=b/vnc" would be read as a property, because of the equals sign; give it with its name, as a property`,
		faults(machine(plan.Option{Flag: "-vnc", Value: "unix:/a=b/vnc", List: true})))
	require.Empty(t, faults(machine(plan.Option{Flag: "-cpu", Value: "host,a=b"})), "not a list")

	p := machine()
	p.QEMU.Name = "a\nb"
	require.Equal(t, `"a\nb" cannot be the name of a process: use printable characters`, faults(p))
	for _, name := range []string{"", "1A", "A B", "A=", "A;B"} {
		p = machine()
		p.QEMU.Env = []plan.Variable{{Name: name}}
		require.Equal(t, fmt.Sprintf(`qemu: environment variable %q="" cannot be set; a name has letters, digits and _`,
			name), faults(p))
	}
}

// A rule keeps the line that created it, in texts and for other processes.
func TestOriginsOfRules(t *testing.T) {
	t.Parallel()
	at := plan.Origin{{File: "a.star", Line: 7, Function: "launch"}}
	p := machine()
	p.Rules, p.RuleOrigins = plan.Rules{plan.CPUs{Boot: 1, Maximum: 2, ID: "c%d"}, plan.Password{}}, []plan.Origin{at}
	require.Regexp(t, `(?m)^rule cpus boot=1 maximum=2 id=c%d +# a\.star:7 launch$`, p.Why())
	text, err := p.JSON()
	require.NoError(t, err)
	var read plan.Plan
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, at, read.RuleOrigin(0))
	require.Empty(t, read.RuleOrigin(1))
}
