package guest

import (
	"bytes"
	"io"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// FuzzReply reads anything as what an agent sends: by lines and by
// synchronisation, both come to the end of it.
func FuzzReply(f *testing.F) {
	f.Add([]byte("{\"return\": {}, \"id\": 1}\n"))
	f.Add([]byte("junk\xff{\"return\": 7}\n"))
	f.Add([]byte("\xff\xff{\"return\": 7, \"id\": \"x\"\xff\n"))
	f.Add([]byte("{\"error\": {\"class\": \"GenericError\", \"desc\": \"\\u001b\"}}\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		a := &Agent{in: newReader(bytes.NewReader(said))}
		for {
			_, err := a.receive(1)
			if err != nil {
				require.True(t, utf8.ValidString(err.Error()))
				require.NotContains(t, err.Error(), "\x1b")
			}
			if isEnd(err) {
				break
			}
			if isMalformed(err) {
				if _, err := a.in.skip(true); err != nil {
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
			_ = refusal(kept, 1)
		} else {
			require.ErrorIs(t, err, io.EOF)
		}
		for _, r := range printable(string(said)) {
			require.True(t, unicode.IsPrint(r) || r == unicode.ReplacementChar)
		}
	})
}
