package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

// strict allows everything that the stock types use, with images in one folder.
const strict = `directories: [/data, /run/vm]
rules:
  - types: [/opt/web/**]
    flags: [stock, -smbios, -fw_cfg, -fsdev, -set, -incoming, -readconfig]
    devices: [stock, vfio-pci, guest-loader]
    backends: [stock, fsdev local]
    read: [stock, /boot/**]
    write: [/images/**]
    programs: [stock]
    helpers:
      - program: stock
      - program: /usr/libexec/virtiofsd
        arguments: [--fd=*, "--shared-dir=/srv/web/*"]
    networks: [stock, bridge br0]
    listen: ["127.0.0.1:*"]
    options: [panic, watch*]
    exact:
      - -device vfio-pci,host=0000:3b:00.*,id=*
      - -cpu host,*
  - types: [stock]
    flags: [stock]
`

// attack is an addition to the standard type, with the reason why the policy denies it.
type attack struct{ about, part, want string }

func attacks() []attack {
	options := func(text string) string { return "part(options = [" + text + "])" }
	return []attack{
		{
			"a flag", options(`option("-plugin", "/tmp/x.so")`),
			"-plugin /tmp/x.so: the flag -plugin is not in its list flags",
		},
		{"a flag with two dashes", options(`option("--plugin", "/tmp/x.so")`), "the flag -plugin is not in its list"},
		{"an unknown flag", options(`option("-incoming", "exec:sh")`), "it is a single text"},
		{"-set", options(`option("-set", "device.nic0.romfile=/etc/shadow")`), "it is a single text"},
		{
			"a device", options(`option("-device", "usb-mtp", {"rootdir": "/"})`),
			"the device usb-mtp is not in its list devices",
		},
		{
			"a device by its property", options(`option("-device", None, {"driver": "usb-mtp", "id": "x"})`),
			"the device usb-mtp is not",
		},
		{"two drivers", options(`option("-device", "usb-kbd", {"driver": "usb-mtp"})`), "it names two drivers"},
		{
			"a device in one piece", options(`option("-device", "usb-kbd,driver=usb-mtp")`),
			"is not the name of a device",
		},
		{"a device as JSON", options(`option("-device", "{\"driver\":\"usb-mtp\"}")`), "is not the name of a device"},
		{
			"a comma in a value",
			options(`option("-device", "virtio-rng-pci", {"rng": "rng0-source,romfile=/etc/shadow"})`), "",
		},
		// The comma above is doubled, so the value stays a name.
		{
			"a ROM file", options(`option("-device", "virtio-net-pci", {"romfile": "/etc/shadow"})`),
			"reading /etc/shadow is not allowed",
		},
		{
			"a relative ROM file", options(`option("-device", "virtio-net-pci", {"romfile": "../../etc/shadow"})`),
			"must be absolute",
		},
		{
			"a ROM file by -global", options(`option("-global", "virtio-net-pci.romfile=/etc/shadow")`),
			"reading /etc/shadow is not allowed",
		},
		{
			"the same, in its other form",
			options(`option("-global", None, {"driver": "virtio-net-pci", "property": "romfile", "value": "/etc/shadow"})`), "reading /etc/shadow is not allowed",
		},
		{"-global of another device", options(`option("-global", "usb-mtp.rootdir=/")`), "the device usb-mtp is not"},
		{
			"an unknown property", options(`option("-device", "virtio-net-pci", {"x-file": "/etc/shadow"})`),
			"what the property x-file does",
		},
		{
			"a host device", options(`option("-device", "vfio-pci", {"host": "0000:01:00.0"})`),
			"what the property host does",
		},
		{
			"a host device by its path",
			options(`option("-device", "vfio-pci", {"host": "0000:3b:00.0", "id": "g", "sysfsdev": "/sys/x"})`), "what the property",
		},
		{
			"a file for the guest's loader",
			options(`option("-device", "guest-loader", {"kernel": "/etc/shadow", "addr": 0})`),
			"reading /etc/shadow is not allowed",
		},
		{
			"a block node",
			options(`option("-blockdev", None, {"driver": "file", "node-name": "x", "filename": "/etc/shadow"})`),
			"writing /etc/shadow is not allowed",
		},
		{
			"a block node for reading",
			options(`option("-blockdev", None, {"driver": "file", "node-name": "x", "filename": "/etc/shadow", "read-only": True})`), "reading /etc/shadow is not allowed",
		},
		{
			"a block node with an unknown driver",
			options(`option("-blockdev", None, {"driver": "https", "node-name": "x", "url": "https://x/y"})`),
			"what the block driver https opens is unknown",
		},
		{
			"read-only twice",
			options(`option("-blockdev", None, {"driver": "file", "node-name": "x", "filename": "/boot/x", "read-only": ["on", "off"]})`), "writing /boot/x is not allowed",
		},
		{
			"a block node within another",
			options(`option("-blockdev", None, {"driver": "qcow2", "node-name": "x", "file.driver": "file", "file.filename": "/etc/shadow"})`), "writing /etc/shadow is not allowed",
		},
		{
			"a base image",
			options(
				`option("-blockdev", None, {"driver": "qcow2", "node-name": "x", "file": "disk0-file", "backing.driver": "raw", "backing.file.driver": "file", "backing.file.filename": "/etc/shadow"})`), "writing /etc/shadow is not allowed",
		},
		{
			"a block node as JSON", options(`option("-blockdev", "{\"driver\":\"file\",\"filename\":\"/etc/shadow\"}")`),
			"a single text",
		},
		{
			"a block node as a text", options(`option("-blockdev", "driver=file,filename=/etc/shadow")`),
			"a single text",
		},
		{
			"a block driver",
			options(`option("-blockdev", None, {"driver": "nbd", "node-name": "x", "server.host": "evil"})`),
			"block driver nbd is not in its list backends",
		},
		{
			"a backend without properties", options(`option("-display", "egl-headless")`),
			"display egl-headless is not in its list backends",
		},
		{
			"vvfat", options(`option("-drive", None, {"if": "none", "format": "raw", "file": "fat:rw:/etc"})`),
			"is not an absolute path",
		},
		{
			"JSON as the name of an image",
			options(`option("-drive", None, {"if": "none", "format": "raw", "file": "json:{\"driver\":\"file\"}"})`), "is not an absolute path",
		},
		{
			"an image of another folder",
			options(`option("-drive", None, {"if": "none", "format": "raw", "file": "/images/../etc/shadow"})`), "must be absolute, without . and ..",
		},
		{
			"an image that QEMU looks into", options(`option("-drive", None, {"if": "none", "file": "/images/a"})`),
			"without format",
		},
		{
			"a file as a console", options(`option("-chardev", "file", {"id": "x", "path": "/etc/cron.d/x"})`),
			"chardev file is not in its list backends",
		},
		{
			"a log of a console",
			options(
				`option("-chardev", "socket", {"id": "x", "path": "/run/vm/x", "server": True, "logfile": "/etc/cron.d/x"})`), "writing /etc/cron.d/x is not allowed",
		},
		{
			"the monitor", options(`option("-chardev", "socket", {"id": "x", "path": "/run/vm/monitor.sock"})`),
			"/run/vm/monitor.sock: it belongs to the runner",
		},
		{
			"another program's socket", options(`option("-chardev", "socket", {"id": "x", "path": "/var/run/docker.sock"})`),
			"writing /var/run/docker.sock is not allowed",
		},
		{
			"an abstract socket",
			options(`option("-chardev", "socket", {"id": "x", "path": "/run/vm/x", "abstract": True})`),
			"an abstract socket",
		},
		{
			"a descriptor by its number", options(`option("-chardev", "socket", {"id": "x", "fd": 3})`),
			"fd=3 is the number of a file descriptor",
		},
		{
			"a port",
			options(`option("-chardev", "socket", {"id": "x", "host": "0.0.0.0", "port": 4444, "server": True})`),
			"listening on 0.0.0.0:4444 is not in its list",
		},
		{
			"a connection", options(`option("-chardev", "socket", {"id": "x", "host": "evil", "port": 4444})`),
			"it connects to evil:4444",
		},
		{
			"the VM's whole directory",
			options(`option("-fsdev", "local", {"id": "x", "path": host.runtimeDir, "security_model": "none"})`),
			"it belongs to the runner, or contains files that do",
		},
		{
			"the whole host", options(`option("-fsdev", "local", {"id": "x", "path": "/", "security_model": "none"})`),
			"it belongs to the runner, or contains files that do",
		},
		{
			"a tap that QEMU opens", options(`option("-netdev", "tap", {"id": "x"})`),
			"run a script; give it the descriptor of a tap",
		},
		{"a serial port to a file", options(`option("-serial", "file:/etc/cron.d/x")`), "QEMU could open anything"},
		{
			"a secret", options(`option("-object", "secret", {"id": "x", "file": "/etc/shadow"})`),
			"object secret is not in its list backends",
		},
		{
			"an object by its property",
			options(`option("-object", None, {"qom-type": "secret", "id": "x", "file": "/etc/shadow"})`), "is unknown",
		},
		{
			"random numbers", options(`option("-object", "rng-random", {"id": "x", "filename": "/dev/sda"})`),
			"reading /dev/sda is not allowed",
		},
		{
			"a script of a tap", options(`option("-netdev", "tap", {"id": "x", "script": "/tmp/evil"})`),
			"what the property script does",
		},
		{
			"a helper of a tap", options(`option("-netdev", "tap", {"id": "x", "helper": "/tmp/evil"})`),
			"what the property helper does",
		},
		{"a bridge helper", options(`option("-netdev", "bridge", {"id": "x", "br": "br1"})`), "is unknown"},
		{
			"JSON in a text", options(`option("-netdev", "user", {"id": "x", "hostname": "{\"a\": 1}"})`),
			"hostname is JSON, which can contain any property",
		},
		{"TFTP", options(`option("-netdev", "user", {"id": "x", "tftp": "/etc"})`), "reading /etc is not allowed"},
		{"SMB", options(`option("-netdev", "user", {"id": "x", "smb": "/etc"})`), "it runs a program"},
		{
			"a command for the network",
			options(`option("-netdev", "user", {"id": "x", "guestfwd": "tcp:10.0.2.100:1-cmd:sh"})`),
			"it runs a program",
		},
		{
			"a forward", options(`option("-netdev", "user", {"id": "x", "hostfwd": "tcp::22-:22"})`),
			"listening on *:22 is not in its list",
		},
		{
			"a forward without addresses", options(`option("-netdev", "user", {"id": "x", "hostfwd": "tcp:22-:22"})`),
			"hostfwd=tcp:22-:22 is not of the form",
		},
		{
			"a forward of another protocol", options(`option("-netdev", "user", {"id": "x", "hostfwd": "unix::22-:22"})`),
			"hostfwd=unix::22-:22 is not of the form",
		},
		{
			"a forward of nothing", options(`option("-netdev", "user", {"id": "x", "hostfwd": "tcp"})`),
			"hostfwd=tcp is not of the form",
		},
		{
			"another type in a netdev", options(`option("-netdev", "user", {"id": "x", "type": "tap"})`),
			"what the property type does",
		},
		{"SPICE", options(`option("-spice", None, {"port": 5900, "disable-ticketing": True})`), "listening on *:5900"},
		{"SPICE by TCP", options(`option("-spice", None, {"unix": "off", "port": 5900})`), "listening on *:5900"},
		{"SPICE by TCP, too", options(`option("-spice", None, {"unix": "no", "port": 5900})`), "listening on *:5900"},
		{"SPICE, again", options(`option("-spice", None, {"unix": "false", "port": 5900})`), "listening on *:5900"},
		{
			"SPICE by a socket elsewhere", options(`option("-spice", None, {"unix": True, "addr": "/run/other"})`),
			"writing /run/other is not allowed",
		},
		{"VNC", options(`option("-vnc", "0.0.0.0:1")`), "listening on 0.0.0.0:5901"},
		{"VNC in one piece", options(`option("-vnc", "127.0.0.1:1,websocket=80")`), "it is a single text"},
		{
			"VNC by a web socket", options(`option("-vnc", None, {"vnc": "127.0.0.1:1", "websocket": 80})`),
			"websocket listens or connects elsewhere",
		},
		{
			"the file of a table", options(`option("-smbios", None, {"type": 11, "path": "/etc/shadow"})`),
			"reading /etc/shadow is not allowed",
		},
		{
			"a file for the firmware", options(`option("-fw_cfg", None, {"name": "opt/x", "file": "/etc/shadow"})`),
			"reading /etc/shadow is not allowed",
		},
		{"a kernel", options(`option("-kernel", "/etc/shadow")`), "reading /etc/shadow is not allowed"},
		{
			"a picture at the start", options(`option("-boot", None, {"splash": "/etc/shadow"})`),
			"reading /etc/shadow is not allowed",
		},
		{
			"a dump of the machine", "part(machine = {\"dumpdtb\": \"/etc/cron.d/x\"})",
			"writing /etc/cron.d/x is not allowed",
		},
		{"no sandbox", "replace(standard(vm, host), remove = [\"-sandbox\"])", "it runs without -sandbox"},
		{"a sandbox with a hole", options(`option("-sandbox", "off")`), "-sandbox more than once"},
		{
			"a helper", `part(helpers = [process("x", "/bin/sh", ["-c", "id"])])`,
			"it runs /bin/sh -c id, which is not in its list helpers",
		},
		{
			"swtpm elsewhere",
			`part(helpers = [process("x", "/usr/bin/swtpm", ["socket", option("--tpmstate", None, {"dir": "/etc"})], dir = host.dataDir)])`, "which is not in its list helpers",
		},
		{
			"swtpm in another folder", `part(helpers = [process("x", "/usr/bin/swtpm", ["socket"], dir = "/etc")])`,
			"writing /etc is not allowed",
		},
		{
			"swtpm with more",
			`part(helpers = [process("x", "/usr/bin/swtpm", ["socket", "--log", "file=/etc/x"], dir = host.dataDir)])`, "which is not in its list helpers",
		},
		{
			"passt with more",
			`part(helpers = [process("x", "/usr/bin/passt", ["--no-map-gw", option("--pcap", "/etc/x")], role = "network")])`,
			"which is not in its list helpers",
		},
		{
			"passt to the host", `part(helpers = [process("x", "/usr/bin/passt", ["--foreground"], role = "network")])`,
			"which is not in its list helpers",
		},
		{
			"passt with its own descriptor", `part(helpers = [process("x", "/usr/bin/passt",
				["--no-map-gw", option("--fd", "7")], role = "network")])`,
			"which is not in its list helpers",
		},
		{
			"passt with a number as descriptor", `part(helpers = [process("x", "/usr/bin/passt",
				["--no-map-gw", option("--fd", None, {"x": "7"})], role = "network")])`,
			"which is not in its list helpers",
		},
		{
			"a port of passt",
			`part(helpers = [process("x", "/usr/bin/passt", ["--no-map-gw", option("--tcp-ports", "0.0.0.0/22:22")], role = "network")])`,
			"listening on 0.0.0.0:22 is not in its list",
		},
		{
			"all ports of passt",
			`part(helpers = [process("x", "/usr/bin/passt", ["--no-map-gw", option("--tcp-ports", "all")], role = "network")])`,
			"which is not in its list helpers",
		},
		{
			"a connection of QEMU", options(`option("-netdev", "stream", {"id": "x", "addr.type": "inet", "addr.host": "a", "addr.port": 1})`),
			"addr.host",
		},
		{
			"a helper's way out",
			`part(helpers = [process("x", "/usr/libexec/virtiofsd", ["--shared-dir=/srv/web/../../etc"])])`,
			"which is not in its list helpers",
		},
		{
			"a variable", `part(env = {"LD_PRELOAD": "/tmp/x.so"})`,
			"QEMU: the environment variable LD_PRELOAD is not in its list environment",
		},
		{
			"a variable of a helper",
			`part(helpers = [process("x", "/usr/libexec/virtiofsd", ["--fd=3"], env = {"LD_PRELOAD": "x"})])`,
			"the environment variable LD_PRELOAD",
		},
		{
			"a program", "replace(standard(vm, host), executable = \"/tmp/qemu-system-x86_64\")",
			"the program /tmp/qemu-system-x86_64 is not",
		},
		{
			"a program behind dots", "replace(standard(vm, host), executable = \"/usr/bin/qemu-system-/../../../tmp/x\")",
			"is not in its list programs",
		},
		{
			"a copy of a secret", `part(files = [copy_once("/etc/shadow", to = host.dataDir + "/x")])`,
			"the file /data/x: reading /etc/shadow is not allowed",
		},
		{
			"a copy to a bad place", `part(files = [copy_once("/boot/x", to = "/root/.ssh/authorized_keys")])`,
			"writing /root/.ssh/authorized_keys is not allowed",
		},
		{
			"a bridge", options(`option("-netdev", "tap", {"id": "x", "fd": tap("t0", bridge = "br-secret")})`),
			"",
		}, // Check reports a tap that is missing in the plan
		{
			"a bridge of the plan",
			`part(taps = [tap("t0", bridge = "br-secret")], options = [option("-netdev", "tap", {"id": "x", "fd": tap("t0", bridge = "br-secret")})])`, "the bridge br-secret is not in its list networks",
		},
		{
			"a forward of a private network",
			`part(taps = [tap("t0", subnet = "10.1.0.0/24", ports = [struct(protocol = "tcp", address = "", host = 22, guest = 22)])], options = [option("-netdev", "tap", {"id": "x", "fd": tap("t0", subnet = "auto")})])`, "listening on *:22 is not",
		},
		{"a socket elsewhere", `part(sockets = {"console": "/run/other/x"})`, "the socket console: writing /run/other/x is not allowed"},
		{
			"a listener elsewhere",
			`part(listeners = [listen("l", "/run/other/x")], options = [option("-chardev", "null", {"id": "x", "fd": listen("l", "/run/other/x")})])`, "the socket l: writing /run/other/x",
		},

		{
			"what is allowed: a device of the host",
			options(`option("-device", "vfio-pci", {"host": "0000:3b:00.0", "id": "gpu"})`), "",
		},
		{"what is allowed: a tag", options(`option("-smbios", None, {"type": 3, "asset": "R2-D2"})`), ""},
		{
			"what is allowed: an image",
			options(`option("-drive", None, {"if": "none", "id": "x", "format": "raw", "file": "/images/x"})`), "",
		},
		{
			"what is allowed: a helper",
			`part(helpers = [process("x", "/usr/libexec/virtiofsd", ["--shared-dir=/srv/web/www", "--fd=3"])])`, "",
		},
		{"what is allowed: VNC for this host", options(`option("-vnc", "127.0.0.1:1")`), ""},
	}
}

func planOf(t *testing.T, part string, vm string) *plan.Plan {
	t.Helper()
	if !strings.HasPrefix(part, "replace(") {
		part = "combine(standard(vm, host), " + part + ")"
	}
	source := vmtypes.Source{Dir: "/opt/web/types", Modules: map[string]string{
		"web.star": `load("@vmtypes//standard.star", standard = "launch", standard_options = "options")

def launch(vm, host):
    """Adds what its author wants."""
    return ` + part + `

options = standard_options
`,
	}}
	vmType, err := source.Library().Load(t.Context(), "web")
	require.NoError(t, err)
	spec, err := sample.ParseVM([]byte(vm))
	require.NoError(t, err)
	made, err := vmType.Launch(t.Context(), spec, sample.HostFacts{}.Host())
	if made == nil {
		require.NoError(t, err)
	}
	return made // even with errors, because the policy also judges such plans
}

func subject() policy.Subject {
	return policy.Subject{
		Folder: "/opt/web/types", DataDir: "/data", RuntimeDir: "/run/vm",
		Reserved: []string{"/run/vm/monitor.sock"},
	}
}

func read(t *testing.T, text string) *policy.Policy {
	t.Helper()
	p, err := policy.Read("policy.yaml", []byte(text))
	require.NoError(t, err)
	return p
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	p := read(t, strict)
	for _, a := range append(attacks(), spelled(t)...) {
		t.Run(a.about, func(t *testing.T) {
			t.Parallel()
			err := p.Check(planOf(t, a.part, "network: []\nuseTpm: true\n"), subject())
			if a.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, a.want)
			require.ErrorContains(t, err, "denied by policy.yaml:", "the rule is named")
		})
	}
}

// A violation contains the option, its origin, and the line of the policy.
func TestViolationsSayAllThatIsNeeded(t *testing.T) {
	t.Parallel()
	made := planOf(t, `part(options = [option("-device", "usb-mtp", {"rootdir": "/srv"})], env = {"X": "1"})`,
		"network: []\n")
	require.EqualError(t, read(t, strict).Check(made, subject()), `the VM type web does what the policy does not allow:
  QEMU: the environment variable X is not in its list environment
      denied by policy.yaml:3, the rule for /opt/web/**
  -device usb-mtp,rootdir=/srv: the device usb-mtp is not in its list devices
      made at web.star:5 launch
      denied by policy.yaml:5, the rule for /opt/web/**
  -device usb-mtp,rootdir=/srv: writing /srv is not allowed
      made at web.star:5 launch
      denied by policy.yaml:8, the rule for /opt/web/**`)
}

// A violation in a process's access list contains the line of the declaration.
func TestAViolationByAccessNamesItsLine(t *testing.T) {
	t.Parallel()
	made := planOf(t, `part(access = [access("/etc/shadow")])`, "network: []\n")
	require.EqualError(t, read(t, strict).Check(made, subject()), `the VM type web does what the policy does not allow:
  QEMU: reading /etc/shadow is not allowed
      made at web.star:5 launch
      denied by policy.yaml:7, the rule for /opt/web/**`)
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	p := read(t, strict)
	made := planOf(t, "None", "network: []\n")
	require.NoError(t, p.Check(made, subject()))
	require.NoError(t, (*policy.Policy)(nil).Check(made, subject()), "no policy, no limits")

	other := subject()
	other.Folder = "/opt/webby"
	require.ErrorContains(t, p.Check(made, other), "types of /opt/webby: no rule applies to them\n      denied by "+
		"policy.yaml:2")
	other = subject()
	other.Folder = policy.Stock
	require.ErrorContains(t, p.Check(made, other), "the program /usr/bin/qemu-system-x86_64 is not in its list "+
		"programs", "the first rule doesn't count")
	other = subject()
	other.DataDir = "/root/.ssh"
	require.ErrorContains(t, p.Check(made, other), "dataDir: /root/.ssh is not in the list directories")
	other = subject()
	other.Options = map[string]any{"panic": "none", "watchdog": "reset", "asset": "x"}
	err := p.Check(made, other)
	require.ErrorContains(t, err, "vm.options.asset is not in its list options")
	require.NotContains(t, err.Error(), "watchdog")
	other = subject()
	other.Images = []string{"/data/disk.img", "/etc/made.img"}
	err = p.Check(planOf(t, `part(listeners = [listen("l", "/run/vm/x")])`, "network: []\n"), other)
	require.EqualError(t, err, `the VM type web does what the policy does not allow:
  the image /etc/made.img: writing /etc/made.img is not allowed
      denied by policy.yaml:8, the rule for /opt/web/**`)
	require.NotContains(t, err.Error(), "/data/disk.img")
	other = subject()
	secret := planOf(t, "None", "network: []\ndrives: [{file: /etc/shadow}]\n")
	require.ErrorContains(t, p.Check(secret, other), "writing /etc/shadow is not allowed",
		"what the configuration names is judged as well")
}

// The word stock allows everything that the stock types use, together with the files and networks of the samples.
func TestStockAllowsWhatStockTypesDo(t *testing.T) {
	t.Parallel()
	p := read(t, `directories: ["/**"]
rules:
  - types: ["/**"]
    flags: [stock]
    devices: [stock]
    backends: [stock, "object filter-dump", "object memory-backend-file"]
    read: [stock, "/images/**", "/boot/**", "/iso/**", "/fw/**", "/opt/**", "/vm/**", "/srv/**", "/**"]
    write: ["/**"]
    programs: [stock]
    helpers: [{program: stock}]
    networks: [stock, "bridge *"]
    listen: ["*:*"]
    options: ["*"]
    exact: ["-smbios type=*,asset=*"]
`)
	eachSample(t, func(path string, s *sample.Sample, made *plan.Plan) {
		err := p.Check(made, policy.Subject{
			Folder: "/x/examples/vmtypes", DataDir: "/data", RuntimeDir: "/run/vm",
			Options: s.VM.Options,
		})
		require.NoError(t, err, path)
	})
}

// eachSample calls f with each golden sample and its plan.
func eachSample(t *testing.T, f func(path string, s *sample.Sample, made *plan.Plan)) {
	t.Helper()
	library, err := vmtypes.Open("../../examples/vmtypes")
	require.NoError(t, err)
	defer library.Close()
	paths, err := filepath.Glob("../testdata/golden/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		s, err := sample.Read(path)
		require.NoError(t, err)
		made, err := s.Plan(t.Context(), library)
		require.NoError(t, err)
		f(path, s, made)
	}
}

// The word stock contains the options of all stock types.
func TestStockHasTheOptionsOfStockTypes(t *testing.T) {
	t.Parallel()
	p := read(t, strings.ReplaceAll(strict, "options: [panic, watch*]", "options: [stock]"))
	made := planOf(t, "None", "network: []\n")
	library, err := vmtypes.Open("")
	require.NoError(t, err)
	for _, name := range library.Names() {
		vmType, err := library.Load(t.Context(), name)
		require.NoError(t, err)
		s := subject()
		s.Options = map[string]any{}
		for _, o := range vmType.Describe().Options {
			s.Options[o.Name] = true
		}
		require.NoError(t, p.Check(made, s), name)
	}
}

func TestFaultsOfAPolicy(t *testing.T) {
	t.Parallel()
	_, err := policy.Read("p.yaml", []byte(`directories: [here]
rules:
  - type: [stock]
  - types: [web]
    flags: [device]
    read: [images/x, /a/../b]
    listen: [localhost]
    exact: [x]
`))
	require.ErrorContains(t, err, "p.yaml:3:5: rules[0].type: unknown key (did you mean types?)")
	_, err = policy.Read("p.yaml", []byte(`directories: [here]
rules:
  - flags: [stock]
  - types: [web]
    flags: [device]
    read: [images/x, /a/../b]
    listen: [localhost]
    exact: [x]
`))
	require.EqualError(t, err, `p.yaml:1:15: directories[0]: "here" is not an absolute path (such as /var/lib/vmrunner/**)
p.yaml:3:5: rules[0]: types is missing (a list of folders of VM types, or stock)
p.yaml:4:13: rules[1].types[0]: "web" is neither an absolute path nor stock
p.yaml:5:13: rules[1].flags[0]: "device" is neither a flag nor stock (a flag begins with a dash: -device)
p.yaml:6:12: rules[1].read[0]: "images/x" is neither an absolute path nor stock
p.yaml:6:22: rules[1].read[1]: "/a/../b" is neither an absolute path nor stock
p.yaml:7:14: rules[1].listen[0]: "localhost" has no port (such as localhost:*)
p.yaml:8:13: rules[1].exact[0]: "x" is not an option (such as -smbios type=3,asset=*)`)
	_, err = policy.Read("p.yaml", []byte("directories: []\n"))
	require.ErrorContains(t, err, "there are no rules, so that no VM could start")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policy.yaml")
	_, err := policy.Load(path)
	require.ErrorIs(t, err, os.ErrNotExist, "one that was asked for must be there")
	require.NoError(t, os.WriteFile(path, []byte(strict), 0o600))
	p, err := policy.Load(path)
	require.NoError(t, err)
	require.Len(t, p.Rules, 2)
}

func ExampleRead() {
	_, err := policy.Read("policy.yaml", []byte("rules:\n  - types: [stock]\n    device: [virtio-*]\n"))
	fmt.Println(err)
	// Output: policy.yaml:3:5: rules[0].device: unknown key (did you mean devices?)
}
