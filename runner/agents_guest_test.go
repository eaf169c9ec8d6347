package runner_test

import (
	"encoding/base64"
	"os"
	"strings"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
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

// portOf returns a shell expression for the device of the port with this name's end.
func portOf(name string) string {
	return "$(grep -l " + name + " /sys/class/virtio-ports/*/name | sed 's,/sys/class/virtio-ports\\(.*\\)/name,/dev\\1,')"
}

// installLoginAgent installs the documentation's log-in agent in the guest. A script that waits for the file /tmp/go
// logs users in.
func (c *console) installLoginAgent() {
	c.t.Helper()
	page, err := os.ReadFile("../docs/reference/guest-agents.md")
	require.NoError(c.t, err)
	_, script, _ := strings.Cut(string(page), "```sh\n")
	script, _, found := strings.Cut(script, "```")
	require.True(c.t, found, "the page has an agent")
	const device = "/dev/virtio-ports/org.jdrupes.vmop_agent.0"
	require.Contains(c.t, script, "port="+device+"\n")
	c.Do("mkdir -p /dev/virtio-ports; ln -s " + portOf("vmop_agent") + " " + device) // as udev does
	act := "#!/bin/sh\necho LOGIN ${0##*/} $* >/dev/console\nwhile [ ! -e /tmp/go ]; do usleep 50000; done\n" +
		"[ \"$1\" != mallory ] || { echo no such user; exit 1; }\n"
	for name, text := range map[string]string{"agent": script, "log-in": act, "log-out": act} {
		c.Do("echo " + base64.StdEncoding.EncodeToString([]byte(text)) + " | base64 -d >/bin/" + name +
			" && chmod +x /bin/" + name)
	}
}

func (c *console) startLoginAgent() {
	c.t.Helper()
	c.Do("agent 2>/dev/null & echo $! >/tmp/login.pid")
}

// kills ends a process of the guest, and waits until its port is free, which is shortly after QEMU's event.
func (c *console) kills(file, signal string) {
	c.t.Helper()
	c.Do("p=$(cat " + file + "); kill -" + signal + " $p; while kill -0 $p 2>/dev/null; do usleep 50000; done")
}
