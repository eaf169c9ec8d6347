package qmp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// Version is QEMU's version from its greeting. Package is the version of the distribution's package.
type Version struct {
	Package string        `json:"package"`
	QEMU    VersionNumber `json:"qemu"`
}

// VersionNumber contains the three parts of a version such as 7.2.22.
type VersionNumber struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
	Micro int `json:"micro"`
}

// message is any message from QEMU. It contains exactly one of QMP (the greeting), Return, Error and Event.
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

// asEvent returns the message as an Event. QEMU uses -1 for an unknown time.
func (m *message) asEvent() Event {
	e := Event{Name: m.Event, Data: m.Data}
	if m.Timestamp.Seconds > 0 {
		e.Time = time.Unix(m.Timestamp.Seconds, m.Timestamp.Microseconds*1000)
	}
	return e
}

// parseMessage parses a line that contains a JSON object. The result does not refer to line.
func parseMessage(line []byte) (*message, error) {
	m := new(message)
	if err := json.Unmarshal(line, m); err != nil {
		return nil, fmt.Errorf("message %s is not QMP: %w", excerptOf(line), err)
	}
	return m, nil
}

// excerptOf returns the beginning of an invalid line for an error message.
func excerptOf(line []byte) string {
	const enough = 64
	if len(line) > enough {
		return fmt.Sprintf("%q…", line[:enough])
	}
	return fmt.Sprintf("%q", line)
}

// lineReader reads lines of limited length.
type lineReader struct {
	r   *bufio.Reader
	max int // maximum length of a line, in bytes
}

func newLineReader(r io.Reader, max int) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 16<<10), max: max}
}

// nextLine returns the next line without its end. The line is valid until the next call. If the input ends inside a
// line, nextLine returns io.ErrUnexpectedEOF.
func (l *lineReader) nextLine() ([]byte, error) {
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
