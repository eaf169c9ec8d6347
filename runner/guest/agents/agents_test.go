package agents

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/test/wait"
	"vmop/vmstatus"
)

// agent plays a guest agent at a socket and serves one client at a time.
type agent struct {
	path  string
	asked chan string // the commands except synchronization
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "a") // a short path for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	a := &agent{path: filepath.Join(dir, "s"), asked: make(chan string, 64)}
	l, err := net.Listen("unix", a.path)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go a.serve(conn)
		}
	}()
	return a
}

func (a *agent) serve(conn net.Conn) {
	defer conn.Close()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		var c struct {
			Execute   string
			Arguments struct{ ID int64 }
		}
		text := lines.Bytes()
		if len(text) > 0 && text[0] == 0xff {
			text = text[1:]
		}
		if json.Unmarshal(text, &c) != nil {
			continue
		}
		answer := map[string]string{
			"guest-sync-delimited": fmt.Sprint(c.Arguments.ID), "guest-get-osinfo": `{"id": "tiny"}`,
			"guest-fsfreeze-freeze": "2", "guest-fsfreeze-thaw": "3", "guest-fsfreeze-status": `"thawed"`,
			"guest-network-get-interfaces": "[]",
		}[c.Execute]
		if c.Execute == "guest-sync-delimited" {
			answer = fmt.Sprintf("\xff"+`{"return": %s}`, answer)
		} else {
			a.asked <- c.Execute
			if answer == "" {
				answer = "{}"
			}
			answer = `{"return": ` + answer + `}`
		}
		fmt.Fprintln(conn, answer)
	}
}

// The guest agent is queried as soon as it listens, and for other parts' requests. The agent kept for the VM's end
// thaws over a separate connection.
func TestTheGuestAgentIsAsked(t *testing.T) {
	t.Parallel()
	played := newAgent(t)
	tracker := status.NewTracker(time.Now, status.Entered{State: vmstatus.StateBooting})
	var driver sync.Mutex
	do := func(f func()) {
		driver.Lock()
		defer driver.Unlock()
		f()
	}
	a := New(t.Context(), Config{
		Paths: map[string]string{GuestRole: played.path}, Log: slog.New(slog.DiscardHandler), Do: do,
		Publish: func(u ...status.Update) { _ = tracker.Update(u...) },
		State:   func() vmstatus.State { return tracker.Status().State },
	})
	t.Cleanup(a.Close)
	asked := func(want string) {
		t.Helper()
		wait.Until(t, func() bool { return <-played.asked == want }, want)
	}
	thaw := func() (count int, err error) {
		answered := make(chan struct{})
		do(func() {
			a.Thaw(time.Minute, func(n int, fault error) { count, err = n, fault; close(answered) })
		})
		<-answered
		return count, err
	}
	_, err := thaw()
	require.ErrorIs(t, err, errNoAgent, "it doesn't listen yet")
	do(func() { a.SetPort(GuestRole, true, false) })
	asked("guest-get-osinfo")
	wait.Until(t, func() bool { return tracker.Status().Guest != nil })
	require.Equal(t, "tiny", tracker.Status().Guest.OS.ID)
	wait.Until(t, func() bool {
		n, err := thaw()
		return err == nil && n == 3
	})

	frozen := make(chan error, 1)
	do(func() {
		a.Freeze(time.Minute, func(n int, sent bool, err error) {
			if n != 2 || !sent {
				err = errors.Join(err, fmt.Errorf("%d file systems, %t", n, sent))
			}
			frozen <- err
		})
	})
	require.NoError(t, <-frozen)
	do(a.Leave)
	n, err := thaw()
	require.NoError(t, err)
	require.Equal(t, 3, n)
	found := make(chan error, 1)
	do(func() {
		a.Find(time.Minute, func(is bool, err error) {
			if !is {
				err = errors.Join(err, errors.New("it is not found"))
			}
			found <- err
		})
	})
	require.NoError(t, <-found)
	ended := make(chan error, 1)
	do(func() { a.ShutDown(time.Minute, func(err error) { ended <- err }) })
	asked("guest-shutdown")
	do(func() { a.SetPort(GuestRole, false, false) })
	wait.Until(t, func() bool { return tracker.Status().Guest == nil })
}
