package policy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/authoring/sample"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/policy"
)

const (
	receivedVM = "network: [{type: user, ports: [{host: 8080, guest: 80}]}]\nuseTpm: true\n" +
		"drives: [{file: /images/disk.img}]\ndisplay: {vnc: {port: 5901}}\n"
	shell   = `part(helpers = [process("x", "/bin/sh", ["-c", "id"])])`
	virtual = `part(helpers = [process("v", "/usr/libexec/virtiofsd", ["--fd=3"], confined = False, env = {"A": "1"})])`
)

// Without a policy, a type from another runner is still denied everything that a policy denies.
func TestAttacksByReceivedTypes(t *testing.T) {
	t.Parallel()
	own := planOf(t, "None", "network: []\nuseTpm: true\n")
	for _, a := range attacks() {
		if a.want == "" {
			continue
		}
		t.Run(a.about, func(t *testing.T) {
			t.Parallel()
			err := policy.CheckReceived(planOf(t, a.part, "network: []\nuseTpm: true\n"), own, subject())
			require.ErrorContains(t, err, "which came from another runner, does what this side's own type does not")
		})
	}
}

// The own type of this side determines the host's side of a plan.
func TestAReceivedTypeDoesWhatTheOwnDoes(t *testing.T) {
	t.Parallel()
	for about, c := range map[string]struct{ received, own, want string }{
		"the same":                  {"None", "None", ""},
		"more hardware":             {`part(options = [option("-device", "usb-kbd", {"id": "k"})])`, "None", ""},
		"less hardware":             {"None", `part(options = [option("-device", "usb-kbd", {"id": "k"})])`, ""},
		"firmware":                  {`part(options = [option("-device", "virtio-net-pci", {"romfile": "/usr/share/qemu/x"})])`, "None", ""},
		"a file in its own folder":  {`part(files = [copy_once("/usr/share/qemu/x", to = host.dataDir + "/x")])`, "None", ""},
		"the own helper":            {shell, shell, ""},
		"the own helper, unlimited": {virtual, virtual, ""},
		"another helper": {
			shell, "None", "the helper x: it runs /bin/sh -c id, which is not in its list helpers",
		},
		"other arguments of a helper": {
			`part(helpers = [process("x", "/bin/sh", ["-c", "ls"])])`, shell, "it runs /bin/sh -c ls, which is not",
		},
		"another variable of a helper": {
			`part(helpers = [process("x", "/bin/sh", ["-c", "id"], env = {"LD_PRELOAD": "/x.so"})])`, shell, "LD_PRELOAD",
		},
		"a helper without confinement": {
			`part(helpers = [process("x", "/bin/sh", ["-c", "id"], confined = False)])`, shell,
			"the helper x: confined = False of /bin/sh is not accepted from another runner",
		},
		"passt without confinement": {
			`part(helpers = [process("x", "/usr/bin/passt", ["--no-map-gw"], role = "network", confined = False)])`, "None",
			"confined = False of /usr/bin/passt is not accepted from another runner",
		},
		"another program": {
			`replace(standard(vm, host), executable = "/usr/bin/qemu-system-aarch64")`, "None",
			"the program /usr/bin/qemu-system-aarch64 is not in its list programs",
		},
		"the own program": {
			`replace(standard(vm, host), executable = "/opt/qemu")`, `replace(standard(vm, host), executable = "/opt/qemu")`, "",
		},
		"a variable": {
			`part(env = {"A": "1"})`, "None", "QEMU: the environment variable A is not in its list environment",
		},
		"the own variable": {`part(env = {"A": "1"})`, `part(env = {"A": "1"})`, ""},
		"another value":    {`part(env = {"A": "2"})`, `part(env = {"A": "1"})`, "the environment variable A is not"},
		"another file": {
			`part(options = [option("-blockdev", None, {"driver": "file", "node-name": "x", "filename": "/etc/shadow"})])`,
			"None", "writing /etc/shadow is not allowed",
		},
		"the configuration's file": {
			`part(options = [option("-blockdev", None, {"driver": "file", "node-name": "x", "filename": "/images/disk.img"})])`,
			"None", "",
		},
		"a file that may be read": {
			`part(access = [access("/srv/x", "write")])`, `part(access = [access("/srv/x")])`,
			"writing /srv/x is not allowed",
		},
		"a file of the runner": {
			`part(sockets = {"console": "/run/vm/monitor.sock"})`, "None", "it belongs to the runner",
		},
		"a network": {
			`part(options = [option("-netdev", "user", {"id": "net1"})])`, "None",
			"-netdev user,id=net1: this side's own type has no such option",
		},
		"another network": {
			`part(options = [option("--netdev", "user", {"id": "net1"})])`,
			`part(options = [option("-netdev", "user", {"id": "net1", "restrict": True})])`, "has no such option",
		},
		"the own network": {
			`part(options = [option("-netdev", "user", {"id": "net1"})])`,
			`part(options = [option("-netdev", "user", {"id": "net1"})])`, "",
		},
		"a display without a password": {
			`part(options = [option("-vnc", "127.0.0.1:7")])`, "None", "-vnc 127.0.0.1:7: this side's own type has no such option",
		},
		"a port": {
			`part(options = [option("-chardev", "socket", {"id": "x", "host": "127.0.0.1", "port": 99, "server": True})])`, "None",
			"listening on 127.0.0.1:99 is not in its list listen",
		},
		"a connection": {
			`part(options = [option("-chardev", "socket", {"id": "x", "host": "127.0.0.1", "port": 22})])`, "None",
			"a policy cannot allow outgoing connections",
		},
		"a tap": {
			`part(taps = [tap("t0", subnet = "10.1.0.0/24")], options = [option("-netdev", "tap", {"id": "x", "fd": tap("t0", subnet = "10.1.0.0/24")})])`,
			"None", "the tap t0: this side's own type has no such tap",
		},
		"no sandbox": {`replace(standard(vm, host), remove = ["-sandbox"])`, "None", "it runs without -sandbox"},
		"no sandbox here either": {
			`replace(standard(vm, host), remove = ["-sandbox"])`, `replace(standard(vm, host), remove = ["-sandbox"])`, "",
		},
		"what the own type has beyond stock types": {
			`part(options = [option("-device", "usb-mtp", {"rootdir": "/srv"})])`,
			`part(options = [option("-device", "usb-mtp", {"rootdir": "/srv"})])`, "",
		},
		"more of it": {
			`part(options = [option("-device", "usb-mtp", {"rootdir": "/etc"})])`,
			`part(options = [option("-device", "usb-mtp", {"rootdir": "/srv"})])`, "writing /etc is not allowed",
		},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			err := policy.CheckReceived(planOf(t, c.received, receivedVM), planOf(t, c.own, receivedVM), subject())
			if c.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "denied by the limits for a VM type that came from another runner")
		})
	}
}

// A disabled sandbox is rejected, even if it resembles the own sandbox.
func TestAReceivedTypeHasTheOwnSandbox(t *testing.T) {
	t.Parallel()
	own, made := planOf(t, "None", receivedVM), planOf(t, "None", receivedVM)
	at := slices.IndexFunc(made.QEMU.Args, func(o plan.Option) bool { return o.Flag == "-sandbox" })
	sandbox := &made.QEMU.Args[at]
	sandbox.Properties = append([]plan.Property{{Key: "enable", Value: "off"}}, sandbox.Properties...)
	require.ErrorContains(t, policy.CheckReceived(made, own, subject()),
		"-sandbox on,enable=off,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny: this side's own type has "+
			"no such option")
}

// Devices that are attached later are judged as well.
func TestWhatAReceivedTypeAttachesIsJudged(t *testing.T) {
	t.Parallel()
	own, made := planOf(t, "None", receivedVM), planOf(t, "None", receivedVM)
	made.Rules = append(made.Rules, plan.Disks{Driver: "usb-mtp"})
	require.ErrorContains(t, policy.CheckReceived(made, own, subject()),
		"disks attached while the VM is running: the device usb-mtp is not in its list devices")
}

// CheckReceived accepts a plan that equals the own plan, for all samples.
func TestEveryTypeDoesWhatItselfDoes(t *testing.T) {
	t.Parallel()
	eachSample(t, func(path string, _ *sample.Sample, made *plan.Plan) {
		of := policy.Subject{DataDir: "/data", RuntimeDir: "/run/vm"}
		require.NoError(t, policy.CheckReceived(made, made, of), path)
	})
}
