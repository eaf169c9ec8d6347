// Package notify tells a service manager how a program is, by the protocol of
// systemd's sd_notify(3): datagrams of lines NAME=VALUE to a unix socket.
//
// See docs/decisions/0020-sd-notify.md.
package notify

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"vmop/printable"
)

// Messages without a value of their own.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// Bounds of what is sent.
const (
	sendTime   = 5 * time.Second // for a manager that doesn't read
	longStatus = 1000            // bytes; a status is one line in a list
)

// A Manager is the service manager that has started the program. The methods
// of a nil Manager do nothing. They may be called from any goroutine.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// FromEnvironment returns the manager that NOTIFY_SOCKET leads to, nil if there
// is none. It takes the protocol's variables from the environment: processes
// that are started later have nothing to say to the manager.
func FromEnvironment() (*Manager, error) {
	take := func(name string) string {
		value := os.Getenv(name)
		_ = os.Unsetenv(name) // it fails for impossible names only
		return value
	}
	socket, interval, pid := take("NOTIFY_SOCKET"), take("WATCHDOG_USEC"), take("WATCHDOG_PID")
	if socket == "" {
		return nil, nil
	}
	if !strings.HasPrefix(socket, "/") && !strings.HasPrefix(socket, "@") {
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s: want the path of a unix socket, or @ and an abstract name", socket)
	}
	m := &Manager{socket: socket}
	if interval == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m, nil
	}
	usec, err := strconv.ParseInt(interval, 10, 64)
	if err != nil || usec <= 0 {
		return nil, fmt.Errorf("WATCHDOG_USEC=%s: want a number of microseconds", interval)
	}
	m.watchdog = time.Duration(usec) * time.Microsecond
	return m, nil
}

// Watchdog returns the longest time that may pass between two Watchdog
// messages, 0 if the manager doesn't wait for any.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog
}

// Tell sends messages, all in one datagram. Each time it connects anew: a
// manager may have been started again in between.
func (m *Manager) Tell(messages ...string) error {
	if m == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	err = conn.SetWriteDeadline(time.Now().Add(sendTime))
	if err == nil {
		_, err = conn.Write([]byte(strings.Join(messages, "\n")))
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("tell the service manager: %w", err)
	}
	return nil
}

// Status makes a message of a text for people. What the text could do as
// further lines, it can't.
func Status(text string) string {
	text = printable.Line(text)
	if len(text) > longStatus {
		text = strings.ToValidUTF8(text[:longStatus], "") + "…"
	}
	return "STATUS=" + strings.TrimSpace(text)
}

// ExtendTimeout makes a message that a start or stop goes on: the manager's
// patience shall not end earlier than after this time.
func ExtendTimeout(by time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10)
}

// Reloading makes the messages that the configuration is being read; Ready
// tells that it has been. The manager orders what it hears by the monotonic
// clock.
func Reloading() []string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // this clock is always there
	return []string{"RELOADING=1", "MONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)}
}
