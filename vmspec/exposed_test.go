package vmspec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestExposedDisplays(t *testing.T) {
	t.Parallel()
	var none *Display
	require.Empty(t, none.Exposed())
	require.Empty(t, (&Display{Outputs: 1}).Exposed())
	for address, want := range map[string]string{
		"": "*:5901", "0.0.0.0": "*:5901", "::": "*:5901", "192.0.2.1": "192.0.2.1:5901",
		"2001:db8::1": "[2001:db8::1]:5901",
		"host":        "host:5901", "127.0.0.1": "", "127.9.9.9": "", "::1": "",
		"localhost": "", "::ffff:127.0.0.1": "",
	} {
		got := (&Display{Spice: &Spice{Port: 5901, Address: address}}).Exposed()
		if want == "" {
			require.Empty(t, got, address)
			continue
		}
		require.Equal(t, []Exposed{{"vm.display.spice", want}}, got)
	}
	require.Empty(t, (&Display{VNC: &VNC{}}).Exposed(), "a socket")
	require.Empty(t, (&Display{VNC: &VNC{Port: 5902}}).Exposed(), "its default is loopback")
	require.Equal(t, []Exposed{{"vm.display.vnc", "*:5902"}},
		(&Display{VNC: &VNC{Port: 5902, Address: "::"}}).Exposed(),
		"asked for")
}
