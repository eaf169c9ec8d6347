package vmspec

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

const someUUID = "2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21"

func TestAddressesAndNamesAreStable(t *testing.T) {
	t.Parallel()
	// These values must never change, because guests identify their cards by them.
	require.Equal(t, "da:1d:db:31:b8:17", MAC(someUUID, 0))
	require.Equal(t, "vmfb68b969bn0", Ifname(someUUID, 0))
	require.Equal(t, MAC(someUUID, 0), MAC("2D5E8B6C-5A0F-4C4E-9D3A-6F1B0C7A9E21", 0), "case of the uuid")
}

func TestAddressesAndNamesAreDistinctAndValid(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, uuid := range []string{someUUID, "00000000-0000-4000-8000-000000000000", ""} {
		for index := range 1000 {
			mac, err := net.ParseMAC(MAC(uuid, index))
			require.NoError(t, err)
			require.Equal(t, byte(2), mac[0]&3, "locally administered, unicast")
			name := Ifname(uuid, index)
			require.LessOrEqual(t, len(name), 15)
			require.False(t, seen[mac.String()] || seen[name])
			seen[mac.String()], seen[name] = true, true
		}
	}
}

func TestValidUUID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		someUUID:                                 true,
		"2D5E8B6C-5A0F-4C4E-9D3A-6F1B0C7A9E21":   true,
		"2d5e8b6c5a0f4c4e9d3a6f1b0c7a9e21":       false,
		"2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e2":    false,
		"2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e2g":   false,
		"2d5e8b6c-5a0f-4c4e-9d3a6-f1b0c7a9e21":   false,
		"{2d5e8b6c-5a0f-4c4e-9d3a-6f1b0c7a9e21}": false,
		"":                                       false,
	} {
		require.Equal(t, want, ValidUUID(text), text)
	}
}
