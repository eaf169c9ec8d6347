package process

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"vmop/printable"
)

const (
	// MaxLine is the longest line in the log, in bytes; a longer one is logged in
	// pieces.
	MaxLine = 4096
	// TailSize is how much of stderr is kept, in bytes.
	TailSize = 4096

	// maxDrain is what a pipe can hold unless root made it larger (pipe(7)).
	maxDrain = 1 << 20
)

// stream logs one output of a process.
type stream struct {
	name string
	log  *slog.Logger
	tail *tail
	r    *os.File

	line    []byte        // the beginning of a line
	drained chan struct{} // closed when all that the process wrote is logged
}

func newStream(name string, log *slog.Logger, keep int) *stream {
	return &stream{name: name, log: log, tail: &tail{size: keep}, drained: make(chan struct{})}
}

// read logs until everybody who has the writing end, which may be more than the
// process, has closed it.
func (s *stream) read() {
	defer s.r.Close()
	buf := make([]byte, MaxLine)
	processEnded := false
	for {
		n, err := s.r.Read(buf)
		s.feed(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) && !processEnded { // see finish
			s.drain(buf)
			s.flush()
			close(s.drained)
			processEnded = true
			continue
		}
		if err != nil {
			break
		}
	}
	s.flush()
	if !processEnded {
		close(s.drained)
	}
}

// finish waits until all that the process wrote before its end is logged. To that
// end it interrupts the reader.
func (s *stream) finish() {
	_ = s.r.SetReadDeadline(time.Unix(1, 0)) // an error: the reader is done
	<-s.drained
}

// drain reads what is in the pipe, without waiting for more.
func (s *stream) drain(buf []byte) {
	if err := s.r.SetReadDeadline(time.Time{}); err != nil {
		return
	}
	raw, err := s.r.SyscallConn()
	if err != nil {
		return
	}
	for total := 0; total < maxDrain; {
		n := 0
		var readErr error
		err := raw.Read(func(fd uintptr) bool {
			n, readErr = syscall.Read(int(fd), buf)
			return true // do not wait
		})
		switch {
		case err != nil:
			return
		case errors.Is(readErr, syscall.EINTR):
			continue
		case n <= 0:
			return
		}
		s.feed(buf[:n])
		total += n
	}
}

// feed takes what has been read and logs the lines that are complete.
func (s *stream) feed(data []byte) {
	s.tail.write(data)
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end >= 0 && len(s.line)+end <= MaxLine {
			s.line = append(s.line, data[:end]...)
			data = data[end+1:]
			s.flush()
			continue
		}
		n := min(len(data), MaxLine-len(s.line))
		s.line = append(s.line, data[:n]...)
		data = data[n:]
		if len(s.line) == MaxLine {
			s.flushPiece()
		}
	}
}

// flush logs the line as it is, unless it is empty.
func (s *stream) flush() {
	if text := printable.Text(string(bytes.TrimRight(s.line, "\r"))); text != "" {
		s.log.Info("output", "stream", s.name, "line", text)
	}
	s.line = s.line[:0]
}

// flushPiece logs the beginning of a line that is too long, up to the last whole
// character.
func (s *stream) flushPiece() {
	cut := len(s.line)
	for i := 1; i < utf8.UTFMax; i++ {
		if last := s.line[len(s.line)-i:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				cut -= i
			}
			break
		}
	}
	rest := bytes.Clone(s.line[cut:])
	s.line = s.line[:cut]
	s.flush()
	s.line = append(s.line, rest...)
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	size int
	data []byte
	cut  bool // something was written before data
}

func (t *tail) write(data []byte) {
	if t.size == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if over := len(t.data) + len(data) - t.size; over > 0 {
		t.cut = true
		if over >= len(t.data) {
			t.data, data = t.data[:0], data[over-len(t.data):]
		} else {
			t.data = t.data[:copy(t.data, t.data[over:])]
		}
	}
	t.data = append(t.data, data...)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	data := t.data
	if t.cut {
		if i := bytes.IndexByte(data, '\n'); i >= 0 && i+1 < len(data) {
			data = data[i+1:]
		}
	}
	return printable.Text(strings.ReplaceAll(string(data), "\r\n", "\n"))
}
