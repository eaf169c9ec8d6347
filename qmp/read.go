package qmp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Version is QEMU's version as it greets. Package is that of a distribution.
type Version struct {
	Package string        `json:"package"`
	QEMU    VersionNumber `json:"qemu"`
}

// VersionNumber has the three parts of a version such as 7.2.22.
type VersionNumber struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
	Micro int `json:"micro"`
}

// message is anything that QEMU sends: exactly one of QMP (the greeting),
// Return, Error and Event is there.
type message struct {
	QMP *struct {
		Version Version `json:"version"`
	} `json:"QMP"`
	ID        json.RawMessage `json:"id"`
	Return    json.RawMessage `json:"return"`
	Error     *Error          `json:"error"`
	Event     string          `json:"event"`
	Data      json.RawMessage `json:"data"`
	Timestamp struct {
		Seconds      int64 `json:"seconds"`
		Microseconds int64 `json:"microseconds"`
	} `json:"timestamp"`
}

// event returns the message as the event it is. QEMU gives -1 for a time it
// could not find out.
func (m *message) event() Event {
	e := Event{Name: m.Event, Data: m.Data}
	if m.Timestamp.Seconds > 0 {
		e.Time = time.Unix(m.Timestamp.Seconds, m.Timestamp.Microseconds*1000)
	}
	return e
}

// parse reads a line that holds a JSON object. What it returns does not refer
// to line.
func parse(line []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(line, m); err != nil {
		return nil, fmt.Errorf("message %s is not QMP: %w", excerpt(line), err)
	}
	return m, nil
}

// excerpt returns the beginning of a line that cannot be understood, for an
// error message.
func excerpt(line []byte) string {
	const enough = 64
	if len(line) > enough {
		return fmt.Sprintf("%q…", line[:enough])
	}
	return fmt.Sprintf("%q", line)
}

// lineReader reads lines of bounded length.
type lineReader struct {
	r   *bufio.Reader
	max int // longest line, in bytes
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 16<<10), max: max}
}

// next returns the next line without its end. It is valid until the next call.
// The end of the input inside a line is io.ErrUnexpectedEOF.
func (l *lineReader) next() ([]byte, error) {
	var long []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(long)+len(part) > l.max {
			return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, l.max)
		}
		switch {
		case err == nil && long == nil:
			return part, nil
		case err == nil:
			return append(long, part...), nil
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
		case errors.Is(err, io.EOF) && len(long)+len(part) > 0:
			return nil, io.ErrUnexpectedEOF
		default:
			return nil, err
		}
	}
}
