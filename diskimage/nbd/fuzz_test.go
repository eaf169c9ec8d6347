package nbd

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// FuzzServer lets a server send anything. The negotiation ends, and any error is printable.
func FuzzServer(f *testing.F) {
	greeting := binary.BigEndian.AppendUint64(nil, magicServer)
	greeting = binary.BigEndian.AppendUint64(greeting, magicOption)
	greeting = binary.BigEndian.AppendUint16(greeting, fixed)
	for _, kind := range []uint32{repAck, repInfo, repTLSReqd, repUnknown, repUnsup, repError | 99} {
		reply := binary.BigEndian.AppendUint64(greeting[:len(greeting):len(greeting)], magicReply)
		reply = binary.BigEndian.AppendUint32(reply, optInfo)
		reply = binary.BigEndian.AppendUint32(reply, kind)
		f.Add(append(binary.BigEndian.AppendUint32(reply, 3), "a\x1bb"...))
	}
	f.Fuzz(func(t *testing.T, said []byte) {
		ours, theirs := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, theirs) }()
		go func() {
			_, _ = theirs.Write(said)
			_ = theirs.Close()
		}()
		if err := negotiateTLS(ours, "data", nil); err != nil {
			for _, r := range err.Error() {
				if r < ' ' {
					t.Fatalf("%q", err)
				}
			}
		}
		_ = ours.Close()
	})
}
