package runner_test

import (
	"encoding/base64"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
	"vmop/runner/control"
	agents "vmop/runner/guest"
	"vmop/runner/status"
	"vmop/test/guest"
	"vmop/test/tier"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// holds waits until a condition has a status and a reason.
func (v *vm) holds(which vmstatus.ConditionType, want string) status.Status {
	v.t.Helper()
	return v.becomes(string(which)+" "+want, func(s status.Status) bool {
		c := s.Condition(which)
		return string(c.Status)+" "+string(c.Reason) == want
	})
}

// portOf is shell: the device of the port whose name ends so.
func portOf(name string) string {
	return "$(grep -l " + name + " /sys/class/virtio-ports/*/name | sed 's,/sys/class/virtio-ports\\(.*\\)/name,/dev\\1,')"
}

// do runs a command of the shell in the guest, and waits for its end.
func (c *console) do(command string) {
	c.t.Helper()
	c.typeLine("sh " + command)
	require.Equal(c.t, "0", c.await(`^rc=(\d+)`)[1], "%s:\n%s", command, c.text())
}

// The real agent, in a real guest.
func TestTheGuestAgentTellsWhatRuns(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	guest.TakePlace(t)
	v := newVM(t, "standard")
	image := guest.Tiny(t).With(t, "/usr/sbin/qemu-ga")
	const mac = "52:54:00:c0:ff:ee"
	v.configure("standard", nil, append(boots(image, ""), "network: [{type: user, mac: '"+mac+"'}]",
		"powerdownTimeout: 120")...)
	c := attach(v)
	v.runs()
	start := func() {
		c.await(`READY`)
		c.do(`mkdir -p /etc /sbin /var/run; echo 'PRETTY_NAME="Tiny \"1\""' >/etc/os-release; ` +
			`printf '#!/bin/sh\npoweroff -f\n' >/sbin/shutdown; chmod +x /sbin/shutdown`)
		c.do("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " + portOf("org.qemu.guest_agent.0"))
	}
	s := v.holds(vmstatus.ConditionBooted, "False VmStarted")
	require.Nil(t, s.Guest)
	start()
	has := func(address string) func(status.Status) bool {
		return func(s status.Status) bool {
			return s.Guest != nil && len(s.Guest.Interfaces) == 1 && slices.Contains(s.Guest.Interfaces[0].Addresses,
				address)
		}
	}
	s = v.becomes("an address", has("10.0.2.15/24"))
	require.Equal(t, vmstatus.StateBooted, s.State)
	require.Equal(t, vmstatus.True, s.Condition(vmstatus.ConditionBooted).Status)
	require.Equal(t, "Tiny \"1\"", s.Guest.OS.PrettyName)
	require.NotEmpty(t, s.Guest.OS.KernelRelease)
	require.Equal(t, "x86_64", s.Guest.OS.Machine)
	require.Equal(t, "eth0", s.Guest.Interfaces[0].Name)
	require.Equal(t, mac, s.Guest.Interfaces[0].MAC)
	v.logged("booted", "state", "Booted", "system", "Tiny")

	c.do("ip address add 192.0.2.7/25 dev eth0")
	v.becomes("another address", has("192.0.2.7/25"))

	c.do("kill $(cat /tmp/ga.pid)")
	s = v.becomes("no agent", func(s status.Status) bool { return s.Guest == nil })
	require.Equal(t, vmstatus.StateBooted, s.State, "it has booted all the same")
	c.do("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " + portOf("org.qemu.guest_agent.0"))
	v.becomes("the agent again", has("192.0.2.7/25"))

	require.NoError(t, v.client().Act(t.Context(), control.Reset))
	s = v.holds(vmstatus.ConditionBooted, "False VmReset")
	require.Equal(t, vmstatus.StateBooting, s.State)
	require.Nil(t, s.Guest)
	start()
	s = v.becomes("an address after the reset", has("10.0.2.15/24"))
	require.Equal(t, vmstatus.StateBooted, s.State)

	outcome, err := v.stop()
	require.NoError(t, err)
	require.Equal(t, vmstatus.CauseAsked, outcome.Cause)
	v.logged("stopping", "method", "guest agent")
	v.notLogged("QMP event", "event", "POWERDOWN")
	v.notLogged("status")
	v.nothingLeft()
}

// installLoginAgent puts the log-in agent of the documentation into the guest.
// Users are logged in by a script that waits for the file /tmp/go.
func (c *console) installLoginAgent() {
	c.t.Helper()
	page, err := os.ReadFile("../docs/guest-agents.md")
	require.NoError(c.t, err)
	_, script, _ := strings.Cut(string(page), "```sh\n")
	script, _, found := strings.Cut(script, "```")
	require.True(c.t, found, "the page has an agent")
	const device = "/dev/virtio-ports/org.jdrupes.vmop_agent.0"
	require.Contains(c.t, script, "port="+device+"\n")
	c.do("mkdir -p /dev/virtio-ports; ln -s " + portOf("vmop_agent") + " " + device) // as udev does
	act := "#!/bin/sh\necho LOGIN ${0##*/} $* >/dev/console\nwhile [ ! -e /tmp/go ]; do usleep 50000; done\n" +
		"[ \"$1\" != mallory ] || { echo no such user; exit 1; }\n"
	for name, text := range map[string]string{"agent": script, "log-in": act, "log-out": act} {
		c.do("echo " + base64.StdEncoding.EncodeToString([]byte(text)) + " | base64 -d >/bin/" + name +
			" && chmod +x /bin/" + name)
	}
}

func (c *console) startLoginAgent() {
	c.t.Helper()
	c.do("agent 2>/dev/null & echo $! >/tmp/login.pid")
}

// killLoginAgent kills it; the port is free then.
func (c *console) killLoginAgent() {
	c.t.Helper()
	c.kills("/tmp/login.pid", "KILL")
}

// kills ends a process of the guest, which has let go of its port then: QEMU's event that the
// port is closed comes a moment before.
func (c *console) kills(file, signal string) {
	c.t.Helper()
	c.do("p=$(cat " + file + "); kill -" + signal + " $p; while kill -0 $p 2>/dev/null; do usleep 50000; done")
}

func TestAUserIsLoggedIn(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	leave := guest.TakePlace(t)
	v := newVM(t, "standard")
	section := append(kernel(t, ""), "network: []")
	want := func(user string) {
		v.configure("standard", nil, append(section, "display: {loggedInUser: '"+user+"'}")...)
	}
	want("alice")
	c := attach(v)
	v.runs()
	c.await(`READY`)
	leave()
	is := func(want, wanted, in string) status.Status {
		t.Helper()
		s := v.holds(vmstatus.ConditionUserLoggedIn, want)
		require.Equal(t, []string{wanted, in}, []string{s.WantedUser, s.LoggedInUser})
		return s
	}
	connected := func(want string) {
		t.Helper()
		require.Equal(t, want, string(v.status().Condition(vmstatus.ConditionVmopAgent).Status))
	}
	is("False VmopAgentDisconnected", "alice", "")
	connected("False")
	c.installLoginAgent()
	c.startLoginAgent()
	is("False Processing", "alice", "")
	connected("True")
	c.await(`LOGIN log-in alice`)
	c.do("touch /tmp/go")
	is("True LoggedIn", "alice", "alice")

	want("bob")
	c.await(`LOGIN log-in bob`)
	v.becomes("bob", func(s status.Status) bool { return s.LoggedInUser == "bob" })
	is("True LoggedIn", "bob", "bob")
	for user, answer := range map[string]string{"root": "504 root is not logged in", "mallory": "550 no such user"} {
		want(user)
		s := v.becomes("why not", func(s status.Status) bool { return s.LoginFailure == answer })
		require.Equal(t, answer, s.Condition(vmstatus.ConditionUserLoggedIn).Message)
		is("False LoginFailed", user, "bob")
	}
	want("")
	c.await(`LOGIN log-out`)
	v.becomes("no user", func(s status.Status) bool { return s.LoggedInUser == "" })
	is("False NotRequested", "", "")
	want("alice")
	s := is("True LoggedIn", "alice", "alice")
	require.Empty(t, s.RestartAwaitingChanges, "no restart is needed for it")

	c.do("rm /tmp/go")
	c.killLoginAgent()
	is("False VmopAgentDisconnected", "alice", "")
	connected("False")
	// QEMU tells of a port once a second at most: what is gone before it was
	// seen must not be taken for what comes after it.
	c.startLoginAgent()
	c.killLoginAgent()
	c.do("touch /tmp/go")
	c.startLoginAgent()
	is("True LoggedIn", "alice", "alice")
	c.killLoginAgent()
	is("False VmopAgentDisconnected", "alice", "")
	c.startLoginAgent()
	is("True LoggedIn", "alice", "alice")
	require.NoError(t, v.client().Act(t.Context(), control.Reset))
	is("False VmopAgentDisconnected", "alice", "")
	_, err := v.stop()
	require.NoError(t, err)
	v.nothingLeft()
}

// The real agent freezes the file systems of a real guest. It has a
// port of the test's, because the runner's has one client.
func TestFileSystemsAreFrozen(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	leave := guest.TakePlace(t)
	v := newVM(t, "wrapped")
	require.NoError(t, os.WriteFile(v.path("disk"), make([]byte, 8<<20), 0o600))
	socket := v.path("bin", "agent.sock")
	v.configure("wrapped", nil, append(boots(guest.Tiny(t).With(t, "/usr/sbin/qemu-ga"), ""), "network: []",
		"drives: [{file: disk}]",
		v.with("-chardev", "socket,id=test,server=on,wait=off,path="+socket, "-device",
			"virtserialport,chardev=test,name=org.test.agent"))...)
	c := attach(v)
	v.runs()
	c.await(`READY`)
	leave()
	c.do("mkdir -p /disk /var/run && mke2fs /dev/vda >/dev/null && mount -t ext4 /dev/vda /disk")
	c.do("/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p " + portOf("org.test.agent"))
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	a, err := agents.Dial(ctx, socket)
	require.NoError(t, err)
	defer a.Close()
	is := func(want agents.FreezeState) {
		t.Helper()
		state, err := a.FSFreezeStatus(ctx)
		require.NoError(t, err)
		require.Equal(t, want, state)
	}
	is(agents.Thawed)
	n, err := a.FreezeFS(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	is(agents.Frozen)
	_, err = a.OSInfo(ctx)
	require.ErrorIs(t, err, qmp.CommandNotFound, "most commands are refused now")
	c.do("(echo x >/disk/file; echo WRITTEN >/dev/console) &")
	n, err = a.ThawFS(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	is(agents.Thawed)
	c.await(`^WRITTEN`)
	v.ends()
}
