package childprocess

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

	"vmop/internal/printable"
)

const (
	// maxLine is the maximum length of a line in the log, in bytes; a longer line is logged in pieces.
	maxLine = 4096
	// TailSize is the number of bytes of stderr that are kept.
	TailSize = 4096

	// maxDrain is the maximum capacity of a pipe unless root has increased it (pipe(7)).
	maxDrain = 1 << 20
)

// stream logs one output of a process.
type stream struct {
	name string
	log  *slog.Logger
	tail *tail
	r    *os.File

	line    []byte        // the beginning of a line
	drained chan struct{} // closed when the whole output of the process is logged
}

func newStream(name string, log *slog.Logger, keep int) *stream {
	return &stream{name: name, log: log, tail: &tail{size: keep}, drained: make(chan struct{})}
}

// readStream logs the output until all holders of the writing end have closed it, which may include more than the
// process.
func (s *stream) readStream() {
	defer s.r.Close()
	buf := make([]byte, maxLine)
	processEnded := false
	for {
		n, err := s.r.Read(buf)
		s.feedLines(buf[:n])
		if errors.Is(err, os.ErrDeadlineExceeded) && !processEnded { // see finishStream
			s.drainPipe(buf)
			s.flushLine()
			close(s.drained)
			processEnded = true
			continue
		}
		if err != nil {
			break
		}
	}
	s.flushLine()
	if !processEnded {
		close(s.drained)
	}
}

// finishStream waits until all output from before the end of the process is logged. It interrupts the reader for that.
func (s *stream) finishStream() {
	_ = s.r.SetReadDeadline(time.Unix(1, 0)) // an error means that the reader is done
	<-s.drained
}

// drainPipe reads the contents of the pipe, without waiting for more.
func (s *stream) drainPipe(buf []byte) {
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
		s.feedLines(buf[:n])
		total += n
	}
}

// feedLines adds data to the current line and logs complete lines.
func (s *stream) feedLines(data []byte) {
	s.tail.writeTail(data)
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end >= 0 && len(s.line)+end <= maxLine {
			s.line = append(s.line, data[:end]...)
			data = data[end+1:]
			s.flushLine()
			continue
		}
		n := min(len(data), maxLine-len(s.line))
		s.line = append(s.line, data[:n]...)
		data = data[n:]
		if len(s.line) == maxLine {
			s.flushPiece()
		}
	}
}

// flushLine logs the current line, unless it is empty.
func (s *stream) flushLine() {
	if text := printable.Text(string(bytes.TrimRight(s.line, "\r"))); text != "" {
		s.log.Info("output", "stream", s.name, "line", text)
	}
	s.line = s.line[:0]
}

// flushPiece logs the beginning of a too long line, up to the last whole character.
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
	s.flushLine()
	s.line = append(s.line, rest...)
}

// tail keeps the end of the written data.
type tail struct {
	mu   sync.Mutex
	size int
	data []byte
	cut  bool // data doesn't begin with the first byte
}

func (t *tail) writeTail(data []byte) {
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

func (t *tail) tailText() string {
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
