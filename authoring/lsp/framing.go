package lsp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
)

// Limits of a message, in bytes. An editor sends whole documents.
const (
	longestHeader  = 4 << 10
	longestMessage = 32 << 20
)

// A channel frames messages as in the protocol's base: headers, an empty line, and Content-Length bytes. In contrast to
// channel.LSP of jrpc2, it limits the size of messages, and closing it ends Recv. A read of standard input cannot be
// interrupted, and editors keep it open until the server has ended.
type channel struct {
	in       *bufio.Reader
	sending  sync.Mutex
	out      io.WriteCloser
	received chan received
	ended    chan struct{}
	// endInput ends Recv. A server must be stopped in this way: jrpc2's Server.Stop panics if a message arrives at the
	// same time.
	endInput func()
	close    func() error
}

// received is a message, or the error that ends the messages.
type received struct {
	message []byte
	err     error
}

func newChannel(in io.Reader, out io.WriteCloser) *channel {
	c := &channel{
		in: bufio.NewReaderSize(in, longestHeader), out: out, received: make(chan received),
		ended: make(chan struct{}),
	}
	c.endInput = sync.OnceFunc(func() { close(c.ended) })
	c.close = sync.OnceValue(func() error {
		c.endInput()
		return out.Close()
	})
	go c.pumpMessages()
	return c
}

// pumpMessages reads until an error, or until the channel is closed.
func (c *channel) pumpMessages() {
	for {
		message, err := c.readMessage()
		if err == nil {
			var answer []byte
			if message, answer = wellFormed(message); answer != nil {
				_ = c.Send(answer) // ignore a receiver that has ended
				continue
			}
		}
		select {
		case c.received <- received{message, err}:
		case <-c.ended:
			return
		}
		if err != nil {
			return
		}
	}
}

// Send implements channel.Channel of jrpc2.
func (c *channel) Send(message []byte) error {
	frame := make([]byte, 0, len(message)+32)
	frame = fmt.Appendf(frame, "Content-Length: %d\r\n\r\n", len(message))
	c.sending.Lock()
	defer c.sending.Unlock()
	_, err := c.out.Write(append(frame, message...))
	return err
}

// Recv implements channel.Channel of jrpc2. io.EOF means that the input ended between two messages, or by endInput.
// After any other error, no further message can be read.
func (c *channel) Recv() ([]byte, error) {
	select {
	case r := <-c.received:
		return r.message, r.err
	case <-c.ended:
		return nil, io.EOF
	}
}

func (c *channel) readMessage() ([]byte, error) {
	length, err := c.readHeader()
	if err != nil {
		return nil, err
	}
	message := make([]byte, length)
	if _, err := io.ReadFull(c.in, message); err != nil {
		return nil, fmt.Errorf("read a message of %d bytes: %w", length, err)
	}
	return message, nil
}

// readHeader reads the headers and returns the length of the message.
func (c *channel) readHeader() (length int, err error) {
	length = -1
	for lines := 0; ; lines++ {
		line, err := c.in.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF) && lines == 0 && len(line) == 0:
			return 0, io.EOF
		case errors.Is(err, io.EOF):
			return 0, fmt.Errorf("read a header: %w", io.ErrUnexpectedEOF)
		case err != nil:
			return 0, fmt.Errorf("read a header: %w", err)
		case lines > 20:
			return 0, errors.New("read the headers: there is no end of them")
		}
		text := strings.TrimSpace(string(line))
		if text == "" {
			break
		}
		name, value, ok := strings.Cut(text, ":")
		if !ok {
			return 0, errors.New("read a header: there is no colon in it")
		}
		if strings.EqualFold(strings.TrimSpace(name), "Content-Length") {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil || length < 0 ||
				length > longestMessage {
				return 0, fmt.Errorf("read a header: Content-Length is not a number up to %d", longestMessage)
			}
		}
	}
	if length < 0 {
		return 0, errors.New("read the headers: there is no Content-Length")
	}
	return length, nil
}

// Close implements channel.Channel of jrpc2.
func (c *channel) Close() error { return c.close() }
