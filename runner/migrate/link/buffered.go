package link

import (
	"bufio"
	"net"
	"sync"
)

// buffered is the connection under TLS. TLS records have at most 16 KiB, so buffered reads and writes many
// records with one system call.
type buffered struct {
	net.Conn

	in  *bufio.Reader
	mu  sync.Mutex
	out []byte // held-back data
	// holding reports whether writes are held back.
	holding bool
}

func newBuffered(conn net.Conn) net.Conn {
	return &buffered{Conn: conn, in: bufio.NewReaderSize(conn, chunk)}
}

// Read implements net.Conn.
func (b *buffered) Read(p []byte) (int, error) { return b.in.Read(p) }

// Write implements net.Conn.
func (b *buffered) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.holding {
		b.out = append(b.out, p...)
		return len(p), nil
	}
	return b.Conn.Write(p)
}

// writeTogether combines the writes of do into one write.
func (b *buffered) writeTogether(do func() error) error {
	b.mu.Lock()
	b.holding = true
	b.mu.Unlock()
	err := do()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.holding = false
	if err == nil {
		_, err = b.Conn.Write(b.out)
	}
	b.out = b.out[:0]
	return err
}
