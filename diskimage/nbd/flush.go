package nbd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
)

// Numbers of the NBD protocol's transmission phase, in addition to those in probe.go.
const (
	noZeroes     = 2 // flag of both server and client
	optExport    = 1
	magicRequest = 0x25609513
	magicAnswer  = 0x67446698
	disconnect   = 2
	flush        = 3
	oldPadding   = 124
)

// request is a client's request.
type request struct {
	Magic           uint32
	Flags, Type     uint16
	Cookie, Address uint64
	Length          uint32
}

// Flush makes a server write everything that was written to an export to the disk. conn has no TLS, and Flush closes
// it. The caller limits the time with the connection's deadline.
func Flush(conn net.Conn, export string) error {
	if err := awaitFlush(conn, export); err != nil {
		return errors.Join(fmt.Errorf("flush the export %q: %w", export, err), conn.Close())
	}
	return conn.Close()
}

func awaitFlush(conn net.Conn, export string) error {
	var greeting struct {
		Magic, Option uint64
		Flags         uint16
	}
	if err := binary.Read(conn, binary.BigEndian, &greeting); err != nil {
		return err
	}
	if greeting.Magic != magicServer || greeting.Option != magicOption || greeting.Flags&fixed == 0 {
		return errors.New("the server speaks no NBD, or only what was before newstyle negotiation")
	}
	flags := greeting.Flags & (fixed | noZeroes)
	if err := binary.Write(conn, binary.BigEndian, uint32(flags)); err != nil {
		return err
	}
	if _, err := conn.Write(encodeOption(optExport, []byte(export))); err != nil {
		return err
	}
	about := make([]byte, 8+2) // size and flags
	if flags&noZeroes == 0 {
		about = append(about, make([]byte, oldPadding)...)
	}
	if _, err := io.ReadFull(conn, about); err != nil {
		return err
	}
	if err := binary.Write(conn, binary.BigEndian, request{Magic: magicRequest, Type: flush}); err != nil {
		return err
	}
	var answer struct {
		Magic, Error uint32
		Cookie       uint64
	}
	if err := binary.Read(conn, binary.BigEndian, &answer); err != nil {
		return err
	}
	if answer.Magic != magicAnswer || answer.Error != 0 {
		return fmt.Errorf("the server answers with the error %d", answer.Error)
	}
	return binary.Write(conn, binary.BigEndian, request{Magic: magicRequest, Type: disconnect})
}
