package guest

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzReply checks that reading by lines and by synchronization both terminate for any agent output.
func FuzzReply(f *testing.F) {
	f.Add([]byte("{\"return\": {}, \"id\": 1}\n"))
	f.Add([]byte("junk\xff{\"return\": 7}\n"))
	f.Add([]byte("\xff\xff{\"return\": 7, \"id\": \"x\"\xff\n"))
	f.Add([]byte("{\"error\": {\"class\": \"GenericError\", \"desc\": \"\\u001b\"}}\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		a := &Agent{in: newReader(bytes.NewReader(said))}
		for {
			_, err := a.receiveReply(1)
			if err != nil {
				require.True(t, utf8.ValidString(err.Error()))
				require.NotContains(t, err.Error(), "\x1b")
			}
			if isEnd(err) {
				break
			}
			if isMalformed(err) {
				if _, err := a.in.skipToSentinel(true); err != nil {
					require.ErrorIs(t, err, io.EOF)
					break
				}
			}
		}
		a = &Agent{in: newReader(bytes.NewReader(said))}
		kept, err := a.awaitSync(7, true)
		if err == nil {
			require.Contains(t, string(said), "\xff")
			require.LessOrEqual(t, len(kept), len(said))
			_ = refusalAmong(kept, 1)
		} else {
			require.ErrorIs(t, err, io.EOF)
		}
		for _, r := range fitText(string(said)) {
			require.True(t, unicode.IsPrint(r) || r == unicode.ReplacementChar)
		}
	})
}

// FuzzLoginAgent lets a log-in agent send anything in pieces of any size. Lines do not depend on the pieces, only
// requested users are logged in, and all published and sent text is printable.
func FuzzLoginAgent(f *testing.F) {
	f.Add([]byte("220 Hello\n201 in\n202 out\n"), "alice", byte(1))
	f.Add([]byte("220\r\n150\n504 \x1b[2J\n201\n240\n220\n"), "bob\nlogout", byte(7))
	f.Add([]byte("201\n220"+strings.Repeat("x", 300)+"\n\n\x00\n220\n201"), "", byte(100))
	f.Add([]byte("220 a\n201 b\n"), "\xff", byte(2))
	f.Fuzz(func(t *testing.T, said []byte, user string, size byte) {
		var whole, pieces splitter
		lines := whole.splitLines(said)
		var same []string
		for rest := said; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			same = append(same, pieces.splitLines(rest[:n])...)
			rest = rest[n:]
		}
		require.Equal(t, lines, same)

		var l Login
		l.Want(user)
		l.Opened(false)
		now, begun := time.Now(), false
		for _, line := range lines {
			require.LessOrEqual(t, len(line), maxLine)
			require.NotContains(t, line, "\n")
			l.Receive(line, now)
			if command := l.Send(now); command != "" {
				require.Contains(t, []string{logout, login + user}, command)
				require.True(t, isPrintable(command))
				begun = true
			}
			state := l.State()
			require.True(t, isPrintable(state.Failure))
			require.LessOrEqual(t, utf8.RuneCountInString(state.Failure), MaxText)
			if state.User != "" {
				require.True(t, begun && state.Connected && state.User == user)
			}
			now = now.Add(time.Minute)
		}
	})
}

// FuzzInterfaces checks that any network report of an agent results in bounded and valid data.
func FuzzInterfaces(f *testing.F) {
	f.Add([]byte(`[{"name": "eth0", "hardware-address": "52:54:00:12:34:56", "ip-addresses": [{"ip-address": ` +
		`"10.0.2.15", "prefix": 24}]}]`))
	f.Add([]byte(`[{"name": "lo", "ip-addresses": [{"ip-address": "::1", "prefix": 128}]}, {"name": "\u001b", ` +
		`"hardware-address": "x"}]`))
	f.Add([]byte(`[{"ip-addresses": [{"ip-address": "fe80::1%eth0", "prefix": 999}, {"ip-address": "0.0.0.0", ` +
		`"prefix": -1}]}]`))
	f.Fuzz(func(t *testing.T, said []byte) {
		var list []reportedInterface
		if json.Unmarshal(said, &list) != nil {
			return
		}
		for _, s := range list {
			i, ok := s.checkedInterface()
			if !ok {
				continue
			}
			require.NotEmpty(t, i.Name)
			require.True(t, isPrintable(i.Name))
			require.True(t, isPrintable(i.MAC))
			require.LessOrEqual(t, len(i.Addresses), MaxAddresses)
			for _, a := range i.Addresses {
				require.True(t, a.IsValid())
				require.False(t, a.Addr().IsLoopback() || a.Addr().IsMulticast() || a.Addr().Zone() != "")
			}
		}
	})
}

func isPrintable(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) < 0
}
