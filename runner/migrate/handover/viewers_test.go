package handover

import (
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

// The target's screen address is passed on to SPICE clients only if it is an address.
func TestTheAddressOfAScreenIsChecked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"screen": {"host": "192.0.2.7", "port": 5900}}`:        true,
		`{"screen": {"host": "2001:db8::7%eth0", "port": 5900}}`: true,
		`{"screen": {"host": "host.example", "port": 5900}}`:     true,
		`{"screen": {"host": "", "port": 5900}}`:                 false,
		`{"screen": {"host": "a\u0000b", "port": 5900}}`:         false,
		`{"screen": {"host": "a,password=x", "port": 5900}}`:     false,
		`{"screen": {"host": "192.0.2.7", "port": 70000}}`:       false,
		`{"screen": {"host": "192.0.2.7", "port": -1}}`:          false,
		`{}`: false,
	} {
		s := NewSource(SourceConfig{Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, s.agreeOn(json.RawMessage(text)), text)
		require.Equal(t, want, s.screen != nil, text)
	}
}
