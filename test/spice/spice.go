// Package spice opens connections to SPICE servers as SPICE clients do, for tests.
package spice

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

	"github.com/stretchr/testify/require"

	"vmop/test/wait"
)

// The link messages of SPICE (spice-protocol, spice/protocol.h), in
// little-endian order.
type (
	header struct {
		Magic              [4]byte
		Major, Minor, Size uint32
	}
	link struct {
		Connection          uint32
		Channel, ChannelID  uint8
		CommonCaps, OwnCaps uint32
		CapsOffset          uint32
	}
	reply struct {
		Error               uint32
		Key                 [162]byte // an RSA key of 1024 bits (X.509)
		CommonCaps, OwnCaps uint32
		CapsOffset          uint32
	}
)

// Types of channels.
const (
	Main   = 1
	Inputs = 3
)

// Refused is the result of a wrong password (SPICE_LINK_ERR_PERMISSION_DENIED).
const Refused = 7

// SemiSeamless is a capability of a client of the main channel: it can connect to the target of a migration before the
// guest runs there (SPICE_MAIN_CAP_SEMI_SEAMLESS_MIGRATE).
const SemiSeamless = 1 << 0

// Login opens a channel on a connection. session is 0 for the main channel; other channels use the session of their
// main channel. It returns 0 or the server's error code. The client has the given capabilities, at most one word.
func Login(
	t testing.TB, conn net.Conn, channel uint8, session uint32, password string, capabilities ...uint32,
) (result uint32) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(wait.Deadline()))

	var hello bytes.Buffer
	hi := link{
		Connection: session, Channel: channel, OwnCaps: uint32(len(capabilities)),
		CapsOffset: uint32(binary.Size(link{})),
	}
	write := func(w io.Writer, value any) { require.NoError(t, binary.Write(w, binary.LittleEndian, value)) }
	size := binary.Size(hi) + 4*len(capabilities)
	write(&hello, header{[4]byte([]byte("REDQ")), 2, 2, uint32(size)})
	write(&hello, hi)
	write(&hello, capabilities)
	write(conn, hello.Bytes())

	var head header
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &head))
	rest := make([]byte, head.Size)
	_, err := io.ReadFull(conn, rest)
	require.NoError(t, err)
	var answer reply
	require.NoError(t, binary.Read(bytes.NewReader(rest), binary.LittleEndian, &answer))
	require.Zero(t, answer.Error)

	key, err := x509.ParsePKIXPublicKey(answer.Key[:])
	require.NoError(t, err)
	ticket, err := rsa.EncryptOAEP(sha1.New(), rand.Reader, key.(*rsa.PublicKey), append([]byte(password), 0), nil)
	require.NoError(t, err)
	write(conn, ticket)
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &result))
	return result
}

// Messages of the main channel.
const (
	MigrateBegin = 101 // contains the target of a migration
	first        = 103 // SPICE_MSG_MAIN_INIT
	SwitchHost   = 111 // contains the server to which the client must switch
)

// Session reads the first message of the main channel, SPICE_MSG_MAIN_INIT, which begins with the session's number.
func Session(t testing.TB, conn net.Conn) (session uint32) {
	t.Helper()
	kind, data := Message(t, conn)
	require.Equal(t, uint16(first), kind)
	return binary.LittleEndian.Uint32(data)
}

// Message reads the next message of a channel.
func Message(t testing.TB, conn net.Conn) (kind uint16, data []byte) {
	t.Helper()
	var head struct {
		Serial    uint64
		Kind      uint16
		Size, Sub uint32
	}
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &head))
	require.Less(t, head.Size, uint32(1<<20))
	data = make([]byte, head.Size)
	_, err := io.ReadFull(conn, data)
	require.NoError(t, err)
	return head.Kind, data
}

// Host returns the address of the other server in a message MigrateBegin or SwitchHost.
func Host(t testing.TB, data []byte) (host string, port uint16) {
	t.Helper()
	var to struct {
		Port, TLSPort uint16
		Size, Offset  uint32
	}
	require.NoError(t, binary.Read(bytes.NewReader(data), binary.LittleEndian, &to))
	require.LessOrEqual(t, uint64(to.Offset)+uint64(to.Size), uint64(len(data)))
	return string(bytes.TrimRight(data[to.Offset:to.Offset+to.Size], "\x00")), to.Port
}
