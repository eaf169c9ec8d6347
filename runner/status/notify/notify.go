// Package notify reports the state of a program to its service manager, using the protocol of systemd's
// sd_notify(3): datagrams with lines NAME=VALUE to a unix socket.
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

	"vmop/internal/printable"
)

// Messages without variable parts.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	Watchdog = "WATCHDOG=1"
)

// Limits of the messages.
const (
	sendTime   = 5 * time.Second // for a manager that doesn't read
	longStatus = 1000            // bytes; a status is one line in a list
)

// A Manager is the service manager that has started the program. The methods of a nil Manager do nothing. They
// may be called concurrently.
type Manager struct {
	socket   string
	watchdog time.Duration
}

// FromEnvironment returns the manager at NOTIFY_SOCKET, or nil if the variable is missing. It removes the
// variables of the protocol from the environment, so that child processes don't send messages to the manager.
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
		return nil, fmt.Errorf("NOTIFY_SOCKET=%s: must be the path of a unix socket, or @ and an abstract name", socket)
	}
	m := &Manager{socket: socket}
	if interval == "" || pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return m, nil
	}
	usec, err := strconv.ParseInt(interval, 10, 64)
	if err != nil || usec <= 0 {
		return nil, fmt.Errorf("WATCHDOG_USEC=%s: must be a number of microseconds", interval)
	}
	m.watchdog = time.Duration(usec) * time.Microsecond
	return m, nil
}

// Watchdog returns the longest time that may pass between two Watchdog messages; 0 if the manager doesn't expect
// any.
func (m *Manager) Watchdog() time.Duration {
	if m == nil {
		return 0
	}
	return m.watchdog
}

// Send sends the messages in one datagram. It connects each time, because the manager may have been restarted in
// between.
func (m *Manager) Send(messages ...string) error {
	if m == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	err = conn.SetWriteDeadline(time.Now().Add(sendTime))
	if err == nil {
		_, err = conn.Write([]byte(strings.Join(messages, "\n")))
	}
	if err = errors.Join(err, conn.Close()); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// Status returns the message with a status text for people. Line ends in the text don't create more messages.
func Status(text string) string {
	text = printable.Line(text)
	if len(text) > longStatus {
		text = strings.ToValidUTF8(text[:longStatus], "") + "…"
	}
	return "STATUS=" + strings.TrimSpace(text)
}

// ExtendTimeout returns the message that a start or stop is in progress, and must not time out within this time.
func ExtendTimeout(by time.Duration) string {
	return "EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10)
}

// Reloading returns the messages that announce a reload of the configuration; Ready announces its end. The
// manager orders messages by the monotonic clock.
func Reloading() []string {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // this clock always exists
	return []string{"RELOADING=1", "MONOTONIC_USEC=" + strconv.FormatInt(now.Nano()/1000, 10)}
}
