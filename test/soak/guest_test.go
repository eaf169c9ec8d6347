package soak_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"

	"vmop/runner/control"
	"vmop/test/wait"
)

// The real guest agent, started and ended in the tiny guest. To shut down, the agent runs /sbin/shutdown.
const (
	startAgent = `mkdir -p /etc /sbin /var/run; printf '#!/bin/sh\npoweroff -f\n' >/sbin/shutdown; ` +
		`chmod +x /sbin/shutdown; ` +
		`echo ID=tiny >/etc/os-release; p=$(grep -l guest_agent /sys/class/virtio-ports/*/name); p=${p%/name}; ` +
		`/usr/sbin/qemu-ga -d -m virtio-serial -t /tmp -f /tmp/ga.pid -p /dev/${p##*/}`
	killAgent = `p=$(cat /tmp/ga.pid); kill -9 $p; while [ -e /proc/$p ]; do usleep 10000; done; rm -f /tmp/ga.pid`
)

// shell runs a command in the guest through its serial console.
func (m *soakVM) shell(command string) error {
	ctx, cancel := wait.Context(m.t.Context())
	defer cancel()
	conn, err := m.client.Console(ctx, control.Take)
	if err != nil {
		return fmt.Errorf("open the console: %w", err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(wait.Deadline()); err != nil {
		return err
	}
	m.commands++
	if _, err := fmt.Fprintf(conn, "sh (%s) >/tmp/said 2>&1; echo command %d returned $?: $(cat /tmp/said)\n", command,
		m.commands); err != nil {
		return fmt.Errorf("type: %w", err)
	}
	returned := regexp.MustCompile(fmt.Sprintf(`^command %d returned (\d+):(.*)`, m.commands))
	said := ""
	for lines := bufio.NewReader(conn); ; {
		line, err := lines.ReadString('\n')
		said += line
		if err != nil {
			return fmt.Errorf("%s: no answer on the console, only %q: %w", command, said[max(0, len(said)-500):],
				errors.Join(err, context.Cause(ctx)))
		}
		if found := returned.FindStringSubmatch(line); found != nil {
			if found[1] != "0" {
				return fmt.Errorf("%s: exit code %s:%s", command, found[1], found[2])
			}
			return nil
		}
	}
}
