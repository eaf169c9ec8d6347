package rfb

import (
	"encoding/binary"
	"fmt"
)

// A message is a type of message that a client may send after the handshake. Lengths are in bytes and include the
// byte with its type.
type message struct {
	head   int                   // the part that determines the length
	length func(head []byte) int // nil: head is the whole message
	input  bool                  // dropped
}

// Types of messages: RFC 6143, section 7.5, and the registry of the RFB community wiki,
// https://github.com/rfbproto/rfbproto.
const (
	setPixelFormat    = 0
	setEncodings      = 2
	updateRequest     = 3
	keyEvent          = 4
	pointerEvent      = 5
	clientCutText     = 6
	continuousUpdates = 150
	fence             = 248
	xvp               = 250 // power actions
	setDesktopSize    = 251
	fromQEMU          = 255 // has another type in the second byte
	qemuKeyEvent      = 0
	qemuAudio         = 1
	qemuAudioFormat   = 2 // an operation of qemuAudio: a format follows
)

// messageOf returns the message of a type.
func messageOf(kind byte) (message, bool) {
	switch kind {
	case setPixelFormat:
		return message{head: 20}, true
	case setEncodings:
		return message{head: 4, length: func(h []byte) int { return 4 + 4*int(binary.BigEndian.Uint16(h[2:])) }}, true
	case updateRequest, continuousUpdates:
		return message{head: 10}, true
	case keyEvent:
		return message{head: 8, input: true}, true
	case pointerEvent:
		return message{head: 6, input: true}, true
	case clientCutText:
		return message{head: 8, length: cutTextLength, input: true}, true
	case fence:
		return message{head: 9, length: func(h []byte) int { return 9 + int(h[8]) }}, true
	case xvp:
		return message{head: 4, input: true}, true
	case setDesktopSize:
		return message{head: 8, length: func(h []byte) int { return 8 + 16*int(h[6]) }, input: true}, true
	case fromQEMU:
		return message{head: 4, length: func(h []byte) int {
			switch {
			case h[1] == qemuKeyEvent:
				return 12
			case binary.BigEndian.Uint16(h[2:]) == qemuAudioFormat:
				return 10
			}
			return 4
		}}, true
	}
	return message{}, false
}

// cutTextLength returns the length of a clipboard message. A negative length means the extended form, of the same
// size without the sign.
func cutTextLength(head []byte) int {
	n := int(int32(binary.BigEndian.Uint32(head[4:])))
	return 8 + max(n, -n)
}

// The parts of the handshake, named after what comes next.
type stage int

const (
	version  stage = iota // "RFB 003.008\n"
	security              // one byte, from version 3.7 on
	initial               // one byte: shared, or 0
	messages
)

const versionLength = len("RFB 003.008\n")

const (
	noSecurity = 1 // the security type without a further exchange
	shared     = 1
)

// A Filter is for one connection, from its beginning.
type Filter struct {
	// Input means that the viewer may use the screen: after the handshake all bytes are passed on.
	Input bool

	stage stage
	head  []byte // of the current, incomplete message
	rest  int    // missing bytes of the current message
	input bool   // drop the current message
	out   []byte
	err   error
}

// Pass returns the bytes of data that may be passed on. The result is valid until the next call. After an error
// it passes no bytes on.
func (f *Filter) Pass(data []byte) ([]byte, error) {
	if f.Input && f.stage == messages {
		return data, nil
	}
	f.out = f.out[:0]
	for len(data) > 0 && f.err == nil {
		if f.rest > 0 {
			n := min(f.rest, len(data))
			f.rest -= n
			if !f.input {
				f.out = append(f.out, data[:n]...)
			}
			data = data[n:]
			continue
		}
		f.head, data = append(f.head, data[0]), data[1:]
		f.err = f.nextByte()
	}
	return f.out, f.err
}

// nextByte processes one more byte of the head.
func (f *Filter) nextByte() error {
	switch f.stage {
	case version:
		if len(f.head) < versionLength {
			return nil
		}
		switch text := string(f.head); text {
		case "RFB 003.003\n":
			f.stage = initial // the server has chosen
		case "RFB 003.007\n", "RFB 003.008\n":
			f.stage = security
		default:
			return fmt.Errorf("a VNC viewer begins with %.12q, but must begin with RFB 003.008", text)
		}
	case security:
		if f.head[0] != noSecurity {
			return fmt.Errorf("a VNC viewer chooses security type %d, but must choose %d, none", f.head[0], noSecurity)
		}
		f.stage = initial
	case initial:
		f.head[0] = shared // QEMU disconnects the others if a client requests exclusive access
		f.stage = messages
	case messages:
		if !f.Input {
			return f.nextMessage()
		}
	}
	f.passThrough()
	return nil
}

func (f *Filter) nextMessage() error {
	m, known := messageOf(f.head[0])
	if !known {
		return fmt.Errorf("a VNC viewer sends a message of the unknown type %d", f.head[0])
	}
	if len(f.head) < m.head {
		return nil
	}
	if f.head[0] == fromQEMU {
		if f.head[1] > qemuAudio {
			return fmt.Errorf("a VNC viewer sends a message of QEMU's unknown type %d", f.head[1])
		}
		m.input = f.head[1] == qemuKeyEvent
	}
	if m.length != nil {
		f.rest = m.length(f.head) - len(f.head)
	}
	f.input = m.input
	if f.input {
		f.head = f.head[:0]
		return nil
	}
	f.passThrough()
	return nil
}

func (f *Filter) passThrough() {
	f.out = append(f.out, f.head...)
	f.head = f.head[:0]
}
