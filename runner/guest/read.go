package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"

	"vmop/internal/printable"
)

// Limits of the replies of a guest.
const (
	maxReply = 1 << 20 // bytes of one reply
	maxDepth = 32      // arrays and objects inside each other
	MaxText  = 256     // characters of one text of Info and OSInfo
)

// malformed is the error of a reply that cannot be used.
type malformed string

// Error implements error.
func (m malformed) Error() string { return string(m) }

func isMalformed(err error) bool {
	var m malformed
	return errors.As(err, &m)
}

// isEnd reports whether err means that the socket is closed at either end.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, io.ErrClosedPipe) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

type reader struct{ r *bufio.Reader }

func newReader(r io.Reader) *reader { return &reader{bufio.NewReaderSize(r, 4<<10)} }

// upTo returns the data before the first of the stops: at least one byte, unless a stop is next. If that stop has
// already arrived, it is returned and is next. The data is valid until the next call.
func (r *reader) upTo(stops ...byte) (part []byte, stop byte, err error) {
	if _, err := r.r.Peek(1); err != nil {
		return nil, 0, err
	}
	part, _ = r.r.Peek(r.r.Buffered())
	for _, s := range stops {
		if i := bytes.IndexByte(part, s); i >= 0 {
			part, stop = part[:i], s
		}
	}
	_, err = r.r.Discard(len(part))
	return part, stop, err
}

// readLine returns the next line without its end. If the line contains a sentinel, line returns an error, and the
// sentinel is next.
func (r *reader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, stop, err := r.upTo('\n', sentinel)
		switch {
		case err != nil:
			return nil, err
		case len(line)+len(part) > maxReply:
			return nil, malformed(fmt.Sprintf("the reply has more than %d bytes", maxReply))
		case stop == sentinel:
			return nil, malformed("a new reply begins inside the reply")
		}
		line = append(line, part...)
		if stop == '\n' {
			_, err = r.r.Discard(1)
			return bytes.TrimSpace(line), err
		}
	}
}

// skipToSentinel reads up to and including the sentinel. With keep, it returns the data before it, up to maxReply
// bytes.
func (r *reader) skipToSentinel(keep bool) (skipped []byte, err error) {
	for {
		part, stop, err := r.upTo(sentinel)
		if err != nil {
			return nil, err
		}
		if keep {
			skipped = append(skipped, part[:min(len(part), maxReply-len(skipped))]...)
		}
		if stop == sentinel {
			_, err = r.r.Discard(1)
			return skipped, err
		}
	}
}

// parseReply parses a reply.
func parseReply(line []byte) (*reply, error) {
	if tooDeep(line) {
		return nil, malformed(fmt.Sprintf("the reply is nested more than %d deep", maxDepth))
	}
	r := new(reply)
	if err := json.Unmarshal(line, r); err != nil {
		return nil, malformed("the reply is not JSON: " + fitText(err.Error()))
	}
	return r, nil
}

func tooDeep(line []byte) bool {
	depth, inText, escaped := 0, false, false
	for _, b := range line {
		switch {
		case escaped:
			escaped = false
		case inText:
			inText, escaped = b != '"', b == '\\'
		case b == '"':
			inText = true
		case b == '[' || b == '{':
			if depth++; depth > maxDepth {
				return true
			}
		case b == ']' || b == '}':
			depth--
		}
	}
	return false
}

// fitText makes the guest's text safe for a log and a terminal, at most MaxText long.
func fitText(text string) string { return printable.Line(printable.Clip(text, MaxText)) }
