package nbd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnAuthorityIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	now := time.Now()
	first, err := NewAuthority("one", now)
	require.NoError(t, err)
	second, err := NewAuthority("two", now)
	require.NoError(t, err)
	pair, err := first.Pair()
	require.NoError(t, err)
	again, err := ReadAuthority(pair)
	require.NoError(t, err)
	require.Equal(t, first, again)

	other, err := second.Pair()
	require.NoError(t, err)
	client, err := first.Client(now)
	require.NoError(t, err)
	for name, p := range map[string]Pair{
		"nothing": {}, "another's key": {pair.Certificate, other.Key}, "no authority": client,
		"swapped": {pair.Key, pair.Certificate}, "cut off": {pair.Certificate[:99], pair.Key},
	} {
		_, err := ReadAuthority(p)
		require.ErrorContains(t, err, "read an authority: ", name)
	}
}
