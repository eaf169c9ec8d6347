// Package spice begins connections with SPICE servers as their clients do, for tests.
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
	"time"

	"github.com/stretchr/testify/require"
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

// patience is how long the server may take for all of it.
const patience = time.Minute

// Login opens a channel on a connection. session is 0 for the main channel; the others belong to
// that one's session. It returns 0 or why the server refuses.
func Login(t testing.TB, conn net.Conn, channel uint8, session uint32, password string) (result uint32) {
	t.Helper()
	require.NoError(t, conn.SetDeadline(time.Now().Add(patience)))

	var hello bytes.Buffer
	hi := link{Connection: session, Channel: channel, CapsOffset: uint32(binary.Size(link{}))}
	write := func(w io.Writer, value any) { require.NoError(t, binary.Write(w, binary.LittleEndian, value)) }
	write(&hello, header{[4]byte([]byte("REDQ")), 2, 2, uint32(binary.Size(hi))})
	write(&hello, hi)
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

// Session reads the first message of the main channel, SPICE_MSG_MAIN_INIT,
// which begins with the session's number.
func Session(t testing.TB, conn net.Conn) (session uint32) {
	t.Helper()
	head := make([]byte, 18) // serial, type, size and a list of others
	_, err := io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Equal(t, uint16(103), binary.LittleEndian.Uint16(head[8:]))
	require.NoError(t, binary.Read(conn, binary.LittleEndian, &session))
	return session
}
