package qmp

import (
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	maxBatch  = 64 << 10    // bytes of commands in one write
	lastWords = time.Second // what QEMU gets to end a connection that takes no more
)

// enqueue registers a command and leaves it to write.
func (s *Session) enqueue(p *Pending, c Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.lastID++
	line, err := c.encode(s.lastID)
	if err != nil {
		return err
	}
	p.id, p.line = s.lastID, line
	if c.File != nil {
		p.rights = rights(c.File)
	}
	s.waiting[p.id] = p
	s.outbox = append(s.outbox, p)
	select {
	case s.wake <- struct{}{}:
	default: // it has been notified already
	}
	return nil
}

// forgetLine marks the command as no longer to be sent. Called with the session's
// mu held.
func (p *Pending) forgetLine() {
	clear(p.line) // it may have held a password
	p.line = nil
}

// write sends what is in the outbox, several commands at a time.
func (s *Session) write() {
	var buf []byte
	for {
		select {
		case <-s.wake:
		case <-s.done:
			return
		}
		for {
			var rights []byte
			buf, rights = s.nextBatch(buf[:0])
			if len(buf) == 0 {
				break
			}
			err := s.send(buf, rights)
			clear(buf)
			if err != nil {
				s.writeFailed(err)
				return
			}
			if cap(buf) > maxBatch {
				buf = nil
			}
		}
	}
}

// send writes commands, with a file's descriptor if there is one.
func (s *Session) send(buf, rights []byte) error {
	if rights != nil {
		conn, ok := s.conn.(*net.UnixConn)
		if !ok {
			return errors.New("a file cannot be sent over this connection")
		}
		n, _, err := conn.WriteMsgUnix(buf, rights, nil)
		if err != nil {
			return err
		}
		buf = buf[n:]
	}
	_, err := s.conn.Write(buf)
	return err
}

// nextBatch moves commands from the outbox to buf. One that has a file, whose descriptor
// is returned, is the last of a batch, and the first.
func (s *Session) nextBatch(buf []byte) (_, rights []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.outbox) > 0 {
		p := s.outbox[0]
		if len(buf) > 0 && (rights != nil || p.rights != nil || len(buf)+len(p.line) > maxBatch) {
			break
		}
		rights = p.rights
		buf = append(buf, p.line...)
		p.forgetLine()
		s.outbox[0] = nil
		s.outbox = s.outbox[1:]
	}
	return buf, rights
}

// writeFailed leaves the end to the reader: what QEMU said last, a SHUTDOWN
// perhaps, is worth more than the broken pipe, and the end of the connection
// follows. Should it not, the session ends all the same.
func (s *Session) writeFailed(err error) {
	s.log.Debug("QMP write ended", "err", err)
	if err := s.conn.SetReadDeadline(time.Now().Add(lastWords)); err != nil {
		s.fail(fmt.Errorf("write to QEMU: %w", err))
	}
}

// withdraw takes a command back that has not been sent, and reports whether it
// could.
func (s *Session) withdraw(p *Pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.line == nil || s.waiting[p.id] != p {
		return false
	}
	for i, queued := range s.outbox {
		if queued == p {
			s.outbox = append(s.outbox[:i], s.outbox[i+1:]...)
			break
		}
	}
	delete(s.waiting, p.id)
	p.forgetLine()
	return true
}
