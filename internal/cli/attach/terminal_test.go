package attach

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func TestKeysGoToTheGuestUntilTheDetachKey(t *testing.T) {
	t.Parallel()
	for typed, want := range map[string]struct {
		guest    string
		detached bool
	}{
		"":              {"", false},
		"root\r":        {"root\r", false},
		"\x03\x1a":      {"\x03\x1a", false},
		"ab\x1dcd":      {"ab", true},
		"\x1d":          {"", true},
		"ab\r\x1d\x1dx": {"ab\r", true},
	} {
		for name, in := range map[string]io.Reader{
			"at once": strings.NewReader(typed), "key by key": iotest.OneByteReader(strings.NewReader(typed)),
		} {
			var guest bytes.Buffer
			detached, err := forwardKeys(&guest, in)
			require.Equal(t, want.detached, detached, "%q %s", typed, name)
			require.Equal(t, want.guest, guest.String(), "%q %s", typed, name)
			if !detached {
				require.ErrorIs(t, err, io.EOF)
			}
		}
	}
	_, err := forwardKeys(iotestWriter{}, strings.NewReader("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

type iotestWriter struct{}

func (iotestWriter) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
