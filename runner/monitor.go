package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"vmop/qmp"
)

// monitor is the connection with QEMU's monitor, which is made anew when it
// breaks. Who wants to say something while there is none waits for it.
type monitor struct {
	path string
	log  *slog.Logger

	mu      sync.Mutex
	session *qmp.Session  // nil: none yet
	kept    bool          // somebody sees to it that there is a session
	changed chan struct{} // closed when session or kept has changed
	dropped uint64        // events of earlier sessions
}

func newMonitor(path string, log *slog.Logger) *monitor {
	return &monitor{path: path, log: log, changed: make(chan struct{})}
}

// dial makes a new connection. QEMU need not answer yet, or at all.
func (m *monitor) dial(ctx context.Context) (*qmp.Session, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", m.path)
	if err != nil {
		return nil, fmt.Errorf("connect to QEMU's monitor: %w", err)
	}
	session := qmp.New(conn, qmp.WithTrace(m.log))
	m.change(func() {
		if m.session != nil {
			m.dropped += m.session.Dropped()
		}
		m.session = session
	})
	return session, nil
}

// keep promises that a session which ends is followed by another, until leave.
func (m *monitor) keep() { m.change(func() { m.kept = true }) }

// leave says that there won't be another session: QEMU has ended.
func (m *monitor) leave() { m.change(func() { m.kept = false }) }

func (m *monitor) change(how func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	how()
	close(m.changed)
	m.changed = make(chan struct{})
}

// current returns the newest session, nil if there never was one.
func (m *monitor) current() *qmp.Session {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.session
}

// await returns a session that has not ended, if there is or will be one.
func (m *monitor) await(ctx context.Context) (*qmp.Session, error) {
	for {
		m.mu.Lock()
		session, kept, changed := m.session, m.kept, m.changed
		m.mu.Unlock()
		switch {
		case session != nil && session.Err() == nil:
			return session, nil
		case !kept && session != nil:
			return nil, session.Err()
		case !kept:
			return nil, qmp.ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("there is no connection with QEMU: %w", context.Cause(ctx))
		}
	}
}

// Run is qmp.Session.Run. A command that was sent is not repeated.
func (m *monitor) Run(ctx context.Context, c qmp.Command) (json.RawMessage, error) {
	session, err := m.await(ctx)
	if err != nil {
		return nil, fmt.Errorf("QMP %s: %w", c.Execute, err)
	}
	return session.Run(ctx, c)
}

// Dropped counts the events that were lost because too many came.
func (m *monitor) Dropped() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.session == nil {
		return 0
	}
	return m.dropped + m.session.Dropped()
}

// Close ends the session, not QEMU.
func (m *monitor) Close() error {
	if session := m.current(); session != nil {
		return session.Close()
	}
	return nil
}
