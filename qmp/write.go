package qmp

import (
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	maxBatch  = 64 << 10    // bytes of commands in one write
	lastWords = time.Second // the time for QEMU to close a connection that can't be written to
)

// enqueueCommand registers a command and queues it for write.
func (s *Session) enqueueCommand(p *Pending, c Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.lastID++
	line, err := c.encodeLine(s.lastID)
	if err != nil {
		return err
	}
	p.id, p.line = s.lastID, line
	if c.File != nil {
		p.rights = fileRights(c.File)
	}
	s.waiting[p.id] = p
	s.outbox = append(s.outbox, p)
	select {
	case s.wake <- struct{}{}:
	default: // write has already been notified
	}
	return nil
}

// forgetLine marks the command as not to be sent. The session's mutex must be locked.
func (p *Pending) forgetLine() {
	clear(p.line) // it may contain a password
	p.line = nil
}

// writeOutbox sends the commands in the outbox, several at a time.
func (s *Session) writeOutbox() {
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
			err := s.sendBuffer(buf, rights)
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

// sendBuffer writes commands, with a file's descriptor unless rights is nil.
func (s *Session) sendBuffer(buf, rights []byte) error {
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

// nextBatch moves commands from the outbox to buf. A command with a file is the only command of its batch, and its
// descriptor is returned.
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

// writeFailed normally leaves the end of the session to the reader: QEMU's last messages, perhaps a SHUTDOWN, are
// more useful than the broken pipe, and the end of the connection follows. If it doesn't follow in time, the session
// ends anyway.
func (s *Session) writeFailed(err error) {
	s.log.Debug("QMP write ended", "err", err)
	if err := s.conn.SetReadDeadline(time.Now().Add(lastWords)); err != nil {
		s.failWith(fmt.Errorf("write to QEMU: %w", err))
	}
}

// withdrawCommand removes a command from the queue if it has not been sent, and reports whether it has.
func (s *Session) withdrawCommand(p *Pending) bool {
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
