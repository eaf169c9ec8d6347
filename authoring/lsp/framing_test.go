package lsp

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

type sink struct{ bytes.Buffer }

func (*sink) Close() error { return nil }

func TestFraming(t *testing.T) {
	t.Parallel()
	const one, two = `{"jsonrpc":"2.0","method":"a"}`, `{"jsonrpc":"2.0","id":1,"method":"b"}`
	in := "Content-Length: 0\r\n\r\n" + "Content-Length: 30\r\n\r\n" + one +
		"Content-Type: application/vscode-jsonrpc; charset=utf8\r\ncontent-length:37\r\n\r\n" + two
	c := newChannel(strings.NewReader(in), new(sink))
	for _, want := range []string{one, two} {
		message, err := c.Recv()
		require.NoError(t, err)
		require.Equal(t, want, string(message))
	}
	_, err := c.Recv()
	require.ErrorIs(t, err, io.EOF)
}

func TestFramingHasBounds(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Content-Length: 99999999999\r\n\r\n{}":        "Content-Length is not a number up to",
		"Content-Length: -1\r\n\r\n":                   "Content-Length is not a number",
		"Content-Length: x\r\n\r\n":                    "Content-Length is not a number",
		"Content-Length: 5\r\n\r\n{}":                  "read a message of 5 bytes: unexpected EOF",
		"\r\n\r\n":                                     "there is no Content-Length",
		"GET / HTTP/1.1\r\n\r\n":                       "there is no colon",
		strings.Repeat("x", 1<<20):                     "buffer full",
		strings.Repeat("a: b\r\n", 100):                "there is no end of them",
		"Content-Length: 1":                            "EOF",
		"Content-Length: 2\r\nContent-Length: 3\r\n\r": "EOF",
	} {
		_, err := newChannel(strings.NewReader(in), new(sink)).Recv()
		require.ErrorContains(t, err, want, "%.40q", in)
		require.NotErrorIs(t, err, io.EOF, "%.40q", in)
	}
}

// A malformed message is answered, and the next message is read.
func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	for bad, want := range map[string]string{
		`{`: "-32700", `[]`: "not a JSON-RPC object", `null`: "jsonrpc is not 2.0",
		`{"jsonrpc":"2.0"}`:                                "neither a request nor an answer",
		`{"jsonrpc":"2.0","method":"a","params":3}`:        "params is neither",
		`{"jsonrpc":"2.0","id":{},"method":"a"}`:           "the id is neither",
		`{"jsonrpc":"2.0","method":3}`:                     "not a JSON-RPC object",
		`{"jsonrpc":"2.0","id":1,"error":3}`:               "the error is not an object",
		`{"jsonrpc":"2.0","id":1,"method":"a","result":1}`: "both a request and an answer",
	} {
		in, out := new(sink), new(sink)
		const good = `{"jsonrpc":"2.0","method":"a"}`
		sender := newChannel(new(sink), in)
		require.NoError(t, sender.Send([]byte(bad)))
		require.NoError(t, sender.Send([]byte(good)))
		message, err := newChannel(&in.Buffer, out).Recv()
		require.NoError(t, err)
		require.Equal(t, good, string(message))
		require.Contains(t, out.String(), want)
	}
}

// FuzzFraming checks that no input causes a panic.
func FuzzFraming(f *testing.F) {
	f.Add([]byte("Content-Length: 30\r\n\r\n{\"jsonrpc\":\"2.0\",\"method\":\"a\"}"))
	f.Add([]byte("\r\n\r\nContent-Length: 0\r\n\r\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		c := newChannel(bytes.NewReader(in), new(sink))
		for range 10 {
			message, err := c.Recv()
			if err != nil {
				break
			}
			again, answer := wellFormed(message)
			require.Nil(t, answer)
			require.Equal(t, string(message), string(again))
		}
		require.NoError(t, c.Close())
	})
}

// FuzzSession checks that every session ends, even if its input is garbage.
func FuzzSession(f *testing.F) {
	frame := func(messages ...string) []byte {
		out := new(sink)
		c := newChannel(new(sink), out)
		for _, m := range messages {
			require.NoError(f, c.Send([]byte(m)))
		}
		return out.Bytes()
	}
	const initialize = `{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": {}}}`
	const open = `{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": {"textDocument": {"uri": ` +
		`"untitled:x.star", "version": 1, "text": "def launch(vm, host):\n    return part(vm."}}}`
	const at = `"params": {"textDocument": {"uri": "untitled:x.star"}, "position": {"line": 1, "character": 18}}}`
	f.Add(frame(initialize, open, `{"jsonrpc": "2.0", "id": 2, "method": "textDocument/completion", `+at,
		`{"jsonrpc": "2.0", "id": 3, "method": "textDocument/hover", `+at))
	f.Add(frame(initialize, open, `{"jsonrpc": "2.0", "id": 2, "method": "textDocument/definition", `+at,
		`{"jsonrpc": "2.0", "id": 3, "method": "textDocument/signatureHelp", `+at))
	f.Add(frame(`[]`, `{"id": {}}`, `null`, `{"jsonrpc": "2.0", "method": 3}`, initialize, initialize,
		`{"jsonrpc": "2.0", "id": 9, "method": "textDocument/didOpen", "params": []}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		done := make(chan error, 1)
		go func() {
			done <- Serve(t.Context(), bytes.NewReader(in), new(sink), inProcessOptions())
		}()
		select {
		case <-done: // with or without an error
		case <-time.After(time.Minute):
			t.Fatal("the session has no end")
		}
	})
}
