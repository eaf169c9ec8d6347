package runner_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The link messages of SPICE (spice-protocol, spice/protocol.h), in
// little-endian order.
type (
	spiceHeader struct {
		Magic              [4]byte
		Major, Minor, Size uint32
	}
	spiceLink struct {
		Connection          uint32
		Channel, ChannelID  uint8
		CommonCaps, OwnCaps uint32
		CapsOffset          uint32
	}
	spiceReply struct {
		Error               uint32
		Key                 [162]byte // an RSA key of 1024 bits (X.509)
		CommonCaps, OwnCaps uint32
		CapsOffset          uint32
	}
)

const (
	spiceMain   = 1 // channel types
	spiceInputs = 3

	spiceRefused = 7 // SPICE_LINK_ERR_PERMISSION_DENIED
)

// spiceLogin opens a channel of a SPICE client and logs in. session is 0 for
// the main channel; the others belong to that one's session. It returns 0 or
// why the server refuses.
func spiceLogin(t *testing.T, address string, channel uint8, session uint32,
	password string,
) (conn net.Conn, result uint32) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))

	var hello bytes.Buffer
	link := spiceLink{Connection: session, Channel: channel, CapsOffset: uint32(binary.Size(spiceLink{}))}
	write := func(w io.Writer, value any) { require.NoError(t, binary.Write(w, binary.LittleEndian, value)) }
	write(&hello, spiceHeader{[4]byte([]byte("REDQ")), 2, 2, uint32(binary.Size(link))})
	write(&hello, link)
	write(conn, hello.Bytes())

	var header spiceHeader
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &header))
	rest := make([]byte, header.Size)
	_, err = io.ReadFull(conn, rest)
	require.NoError(t, err)
	var reply spiceReply
	require.NoError(t, binary.Read(bytes.NewReader(rest), binary.LittleEndian, &reply))
	require.Zero(t, reply.Error)

	key, err := x509.ParsePKIXPublicKey(reply.Key[:])
	require.NoError(t, err)
	ticket, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key.(*rsa.PublicKey), append([]byte(password), 0), nil)
	require.NoError(t, err)
	write(conn, ticket)
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &result))
	return conn, result
}

// spiceSession reads the first message of the main channel, SPICE_MSG_MAIN_INIT,
// which begins with the session's number.
func spiceSession(t *testing.T, conn net.Conn) (session uint32) {
	t.Helper()
	header := make([]byte, 18) // serial, type, size and a list of others
	_, err := io.ReadFull(conn, header)
	require.NoError(t, err)
	require.Equal(t, uint16(103), binary.LittleEndian.Uint16(header[8:]))
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &session))
	return session
}
