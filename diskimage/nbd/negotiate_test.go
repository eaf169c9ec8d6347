package nbd

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

// reply returns a server's reply to an option.
func reply(magic uint64, option, kind, length uint32) []byte {
	b := binary.BigEndian.AppendUint64(nil, magic)
	for _, n := range []uint32{option, kind, length} {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return append(b, make([]byte, length)...)
}

// The client accepts only a reply to the option that it sent, up to the protocol's maximum length, and only a bounded
// number of replies.
func TestRepliesOfServers(t *testing.T) {
	t.Parallel()
	ack, info := reply(magicReply, optInfo, repAck, 0), reply(magicReply, optInfo, repInfo, 12)
	for name, c := range map[string]struct {
		said []byte
		err  string
	}{
		"an acknowledgement":     {ack, ""},
		"the last of 16":         {append(bytes.Repeat(info, 15), ack...), ""},
		"the longest":            {append(reply(magicReply, optInfo, repInfo, 64<<10), ack...), ""},
		"one to another option":  {reply(magicReply, optStartTLS, repAck, 0), "its reply is not an NBD reply"},
		"one without the number": {reply(magicReply+1, optInfo, repAck, 0), "its reply is not an NBD reply"},
		"one that is too long":   {reply(magicReply, optInfo, repAck, 64<<10+1), "its reply is not an NBD reply"},
		"the first of 17":        {append(bytes.Repeat(info, 16), ack...), "its replies have no end"},
		"one that is cut":        {info[:25], "read its reply: unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, theirs := net.Pipe()
			sent := make(chan error, 1)
			go func() {
				_, err := io.ReadFull(theirs, make([]byte, len(encodeOption(optInfo, nil))))
				_, _ = theirs.Write(c.said) // after an error the client leaves the rest unread
				sent <- errors.Join(err, theirs.Close())
			}()
			kind, _, err := sendOption(ours, optInfo, nil)
			require.NoError(t, ours.Close())
			require.NoError(t, <-sent)
			if c.err != "" {
				require.EqualError(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, repAck, kind)
		})
	}
}
