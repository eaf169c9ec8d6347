package nbd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"vmop/internal/printable"
	"vmop/internal/readfile"
	"vmop/vmspec"
)

// Probe checks within a time limit that a server answers and has the export. It asks as QEMU does, with the same
// certificates if d has any. QEMU itself would wait in its main loop.
func Probe(ctx context.Context, d vmspec.NBD, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	address := net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	certificates, err := clientConfig(d)
	if err != nil {
		return fmt.Errorf("NBD server %s: %w", address, err)
	}
	conn, err := connectToServer(ctx, func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	})
	if err == nil {
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		err = negotiateTLS(conn, d.Export, certificates)
		stop()
		_ = conn.Close() // no written data matters
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("NBD server %s does not answer within %s", address, limit)
	}
	if err != nil {
		return fmt.Errorf("NBD server %s: %w", address, err)
	}
	return nil
}

// nextConnect is the time to wait for a connection before trying another in parallel.
const nextConnect = 100 * time.Millisecond

// connectToServer dials repeatedly in parallel until a connection has an answer. Packets to an address that a cluster's
// network doesn't know yet are lost, and the kernel repeats them only after one second and then after two.
func connectToServer(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		conn net.Conn
		err  error
	}
	answers := make(chan answer)
	more := time.NewTicker(nextConnect)
	defer more.Stop()
	for {
		go func() {
			conn, err := dial(ctx)
			select {
			case answers <- answer{conn, err}:
			case <-ctx.Done(): // another connection was first
				if err == nil {
					_ = conn.Close()
				}
			}
		}()
		select {
		case a := <-answers:
			return a.conn, a.err
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-more.C:
		}
	}
}

// maxPEM is the maximum size of a file with certificates or a key, in bytes.
const maxPEM = 1 << 20

// clientConfig reads the certificates; it returns nil if d names no folder with certificates.
func clientConfig(d vmspec.NBD) (*tls.Config, error) {
	if d.TLS == "" {
		return nil, nil
	}
	c := &tls.Config{ServerName: d.Host, RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}
	ca, err := readfile.ReadFile(filepath.Join(d.TLS, CAFile), maxPEM)
	if err != nil {
		return nil, err
	}
	if !c.RootCAs.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("%s has no certificate", filepath.Join(d.TLS, CAFile))
	}
	certificate, err := readfile.ReadFile(filepath.Join(d.TLS, ClientCertificateFile), maxPEM)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil // the server may not require a client certificate
	}
	key, errKey := readfile.ReadFile(filepath.Join(d.TLS, ClientKeyFile), maxPEM)
	if err := errors.Join(err, errKey); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(d.TLS, ClientCertificateFile), err)
	}
	c.Certificates = []tls.Certificate{pair}
	return c, nil
}

// Numbers of the NBD protocol, "newstyle negotiation".
const (
	magicServer  = 0x4e42444d41474943 // NBDMAGIC
	magicOption  = 0x49484156454f5054 // IHAVEOPT
	magicReply   = 0x3e889045565a9
	fixed        = 1 // newstyle: unknown options are answered
	optAbort     = 2
	optStartTLS  = 5
	optInfo      = 6
	repAck       = 1
	repInfo      = 3
	repError     = 1 << 31
	repUnsup     = repError | 1
	repTLSReqd   = repError | 5
	repUnknown   = repError | 6
	longestReply = 64 << 10
	mostReplies  = 16
)

// negotiateTLS starts TLS, if there are certificates, and requests the export.
func negotiateTLS(conn net.Conn, export string, certificates *tls.Config) error {
	var greeting struct {
		Magic, Option uint64
		Flags         uint16
	}
	if err := binary.Read(conn, binary.BigEndian, &greeting); err != nil {
		return fmt.Errorf("read its greeting: %w", err)
	}
	if greeting.Magic != magicServer || greeting.Option != magicOption || greeting.Flags&fixed == 0 {
		return errors.New("it speaks no NBD, or only what was before newstyle negotiation")
	}
	if err := binary.Write(conn, binary.BigEndian, uint32(fixed)); err != nil {
		return err
	}
	if certificates != nil {
		kind, text, err := sendOption(conn, optStartTLS, nil)
		if err != nil {
			return err
		}
		if kind != repAck {
			return fmt.Errorf("it offers no TLS%s", text)
		}
		session := tls.Client(conn, certificates)
		if err := session.Handshake(); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		conn = session
	}
	err := queryExport(conn, export)
	if gone := (&lostError{}); errors.As(err, &gone) && certificates != nil { // as TLS 1.3 behaves
		return fmt.Errorf("it has ended the connection after TLS, and may not accept the client's certificate: %w", err)
	}
	return err
}

// queryExport requests information about the export and ends the negotiation.
func queryExport(conn net.Conn, export string) error {
	request := binary.BigEndian.AppendUint32(nil, uint32(len(export)))
	request = append(append(request, export...), 0, 0) // no specific information
	switch kind, text, err := sendOption(conn, optInfo, request); {
	case err != nil:
		return err
	case kind == repTLSReqd:
		return errors.New("the server requires TLS; set tls to a folder with certificates")
	case kind == repUnknown:
		return fmt.Errorf("it has no export %q%s", export, text)
	case kind&repError != 0 && kind != repUnsup: // an older server may not support the option; QEMU will find out
		return fmt.Errorf("it refuses the export %q%s", export, text)
	}
	_, err := conn.Write(encodeOption(optAbort, nil))
	return err
}

// A lostError means that a connection has ended.
type lostError struct{ cause error }

func (e *lostError) Error() string { return "read its reply: " + e.cause.Error() }
func (e *lostError) Unwrap() error { return e.cause }

func encodeOption(number uint32, data []byte) []byte {
	b := binary.BigEndian.AppendUint64(nil, magicOption)
	b = binary.BigEndian.AppendUint32(b, number)
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	return append(b, data...)
}

// sendOption sends an option and returns the kind of the last reply. If that is an error, text is its message.
func sendOption(conn net.Conn, number uint32, data []byte) (kind uint32, text string, err error) {
	if _, err := conn.Write(encodeOption(number, data)); err != nil {
		return 0, "", &lostError{err}
	}
	for range mostReplies {
		var reply struct {
			Magic                uint64
			Option, Kind, Length uint32
		}
		if err := binary.Read(conn, binary.BigEndian, &reply); err != nil {
			return 0, "", &lostError{err}
		}
		if reply.Magic != magicReply || reply.Option != number || reply.Length > longestReply {
			return 0, "", errors.New("its reply is not an NBD reply")
		}
		content := make([]byte, reply.Length)
		if _, err := io.ReadFull(conn, content); err != nil {
			return 0, "", &lostError{err}
		}
		if reply.Kind == repInfo {
			continue
		}
		if reply.Kind&repError != 0 && len(content) > 0 {
			text = ": " + printable.Line(printable.Clip(string(content), 200))
		}
		return reply.Kind, text, nil
	}
	return 0, "", errors.New("its replies have no end")
}
