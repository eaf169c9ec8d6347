package handover

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate"
	"vmop/test/tier"
)

// network connects the sides of a migration. While it is cut, data is silently dropped.
type network struct {
	listener net.Listener
	target   string

	mu     sync.Mutex
	isCut  bool
	conns  []net.Conn
	healed chan struct{}
}

// newNetwork adds a network in front of a trial's target.
func newNetwork(t *testing.T, r *trial) *network {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n := &network{listener: l, target: r.keys.Address, healed: make(chan struct{})}
	t.Cleanup(func() { l.Close(); n.heal() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go n.carry(conn)
		}
	}()
	r.keys.Address = l.Addr().String()
	return n
}

// carry passes bytes between a connection and the target.
func (n *network) carry(source net.Conn) {
	n.wait()
	target, err := net.Dial("tcp", n.target)
	if err != nil {
		source.Close()
		return
	}
	n.mu.Lock()
	n.conns = append(n.conns, source, target)
	n.mu.Unlock()
	go n.pass(target, source)
	n.pass(source, target)
}

func (n *network) pass(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		count, err := from.Read(buffer)
		n.wait()
		if count > 0 {
			if _, err := to.Write(buffer[:count]); err != nil {
				return
			}
		}
		if err != nil {
			if err != io.EOF {
				from.Close()
			}
			return
		}
	}
}

// wait returns when the network isn't cut.
func (n *network) wait() {
	n.mu.Lock()
	cut, healed := n.isCut, n.healed
	n.mu.Unlock()
	if cut {
		<-healed
	}
}

func (n *network) cut() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.isCut = true
}

// heal lets new connections pass and resets the earlier connections.
func (n *network) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.isCut {
		return
	}
	for _, c := range n.conns {
		c.Close()
	}
	n.isCut, n.conns = false, nil
	close(n.healed)
}

// The network is silently cut at any moment. Before its release the guest continues at the source within a bounded
// time. Afterwards it stays paused at the source until its place is known, which is exactly one side.
func TestTheNetworkIsCut(t *testing.T) {
	t.Parallel()
	for i, m := range moments() {
		t.Run(m.side+" "+string(m.stage), func(t *testing.T) {
			t.Parallel()
			if i%3 != 0 {
				tier.Deep(t)
			}
			var n *network
			s := &struck{trial: newTrial(t, false), killed: make(chan struct{})}
			s.silence = 3 * time.Second
			n = newNetwork(t, s.trial)
			var once sync.Once
			s.at = func(side string, p Progress) {
				if side == m.side && p.Stage == string(m.stage) {
					once.Do(func() { n.cut(); close(s.killed) })
				}
			}
			s.target, s.receiving = s.asTarget()
			s.sending = s.asSource()
			get(t, s.killed)
			switch m.stage {
			case migrate.Asking, migrate.Resuming, migrate.Running:
				select {
				case <-s.sending.ended:
					if m.stage == migrate.Running { // the message was already sent
						exactlyOne(t, s.to, s.from)
						return
					}
					require.Fail(t, "the source knows an answer that the target can't have sent")
				case <-time.After(2 * s.silence):
					require.NotEqual(t, "running", s.from.state())
				}
				n.heal()
				require.NoError(t, get(t, s.sending.ended))
				require.NoError(t, get(t, s.target.Decided()))
				exactlyOne(t, s.to, s.from)
				continues(t, s.from, s.to)
				return
			}
			require.Error(t, get(t, s.sending.ended))
			exactlyOne(t, s.from, s.there())
			n.heal()
			if m.stage == migrate.Offering { // the message has not reached the target
				s.receiving.kill()
				return
			}
			require.Error(t, get(t, s.target.Decided()))
			exactlyOne(t, s.from, s.there())
			unrecorded(t, s.fromDir)
		})
	}
}

// A disk copy is given up while the target doesn't answer and the guest's writes wait for it. The writes then complete
// and the guest continues.
func TestACopyIsCancelledWithoutAnswer(t *testing.T) {
	t.Parallel()
	r := newLocal(t, "raw", "raw")
	r.bounds.Bandwidth = 1 << 20
	n := newNetwork(t, r)
	var once sync.Once
	r.at = func(side string, p Progress) {
		if side == "source" && p.DiskCopied > 1<<20 {
			once.Do(func() {
				n.cut()
				go r.source.Cancel(t.Context(), errors.New("cancelled"))
			})
		}
	}
	target, _ := r.asTarget()
	require.ErrorContains(t, get(t, r.asSource().ended), "cancelled")
	exactlyOne(t, r.from, r.there())
	r.nothingOfQEMU(r.from)
	n.heal()
	require.Error(t, get(t, target.Decided()))
	r.stays()
}

// A stalled migration is given up.
func TestAStallIsNoticed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := stall{limit: time.Minute}
	require.NoError(t, s.checkStall(0, now))
	require.NoError(t, s.checkStall(0, now.Add(59*time.Second)))
	require.NoError(t, s.checkStall(7, now.Add(time.Minute)))
	require.NoError(t, s.checkStall(7, now.Add(119*time.Second)))
	require.EqualError(t, s.checkStall(7, now.Add(2*time.Minute)), "no data of the guest could be sent for 1m0s")
}
