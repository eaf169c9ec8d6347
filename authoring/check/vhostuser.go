package check

import (
	"encoding/binary"
	"io"
	"net"
)

// Requests of the vhost-user protocol that have a reply (QEMU, docs/interop/vhost-user.rst).
const (
	getFeatures         = 1
	getVringBase        = 11
	getProtocolFeatures = 15
	getQueueNumber      = 17
	getConfig           = 24
)

// The answers to these requests.
const (
	// VIRTIO_F_VERSION_1 and VHOST_USER_F_PROTOCOL_FEATURES.
	answeredFeatures = 1<<32 | 1<<30
	// VHOST_USER_PROTOCOL_F_MQ and VHOST_USER_PROTOCOL_F_CONFIG.
	answeredProtocol = 1<<0 | 1<<9
	answeredQueues   = 256
)

const (
	// answerFlags are the version of the protocol, and the mark of a reply.
	answerFlags = 1 | 1<<2
	// mostPayload is the maximum size of a request's payload, in bytes. A larger size means another protocol.
	mostPayload = 4096
)

// answerAll runs answerVhostUser for each connection to a listener, until the listener is closed.
func answerAll(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return // it is closed
		}
		go answerVhostUser(conn)
	}
}

// answerVhostUser replaces a missing program that emulates a vhost-user device: it answers QEMU, so that QEMU can
// create the device. It answers until QEMU closes the connection, or uses another protocol.
func answerVhostUser(conn net.Conn) {
	defer func() { _ = conn.Close() }() // QEMU reports a broken connection
	var header [12]byte
	for {
		if _, err := io.ReadFull(conn, header[:]); err != nil {
			return
		}
		size := binary.NativeEndian.Uint32(header[8:])
		if size > mostPayload {
			return
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(conn, payload); err != nil {
			return
		}
		switch binary.NativeEndian.Uint32(header[:]) {
		case getFeatures:
			payload = binary.NativeEndian.AppendUint64(nil, answeredFeatures)
		case getProtocolFeatures:
			payload = binary.NativeEndian.AppendUint64(nil, answeredProtocol)
		case getQueueNumber:
			payload = binary.NativeEndian.AppendUint64(nil, answeredQueues)
		case getConfig, getVringBase: // the request is also a valid reply
		default:
			continue
		}
		binary.NativeEndian.PutUint32(header[4:], answerFlags)
		binary.NativeEndian.PutUint32(header[8:], uint32(len(payload)))
		if _, err := conn.Write(append(header[:], payload...)); err != nil {
			return
		}
	}
}
