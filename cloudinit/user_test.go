package cloudinit

import (
	"strings"
	"testing"

	"github.com/go-crypt/crypt/algorithm/shacrypt"
	"github.com/stretchr/testify/require"
)

func TestPasswordIsHashed(t *testing.T) {
	t.Parallel()
	hash, err := HashPassword("Grüße: 'x'")
	require.NoError(t, err)
	require.Regexp(t, `^\$6\$rounds=100000\$[./0-9A-Za-z]{16}\$[./0-9A-Za-z]{86}$`, hash)
	digest, err := shacrypt.Decode(hash)
	require.NoError(t, err)
	require.True(t, digest.Match("Grüße: 'x'"))
	require.False(t, digest.Match("Grüße: x"))
	again, err := HashPassword("Grüße: 'x'")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "its salt is random")
	for _, wrong := range []string{"", "canary\n", "canary\x00", "canary" + strings.Repeat("x", LongestPassword)} {
		_, err := HashPassword(wrong)
		require.ErrorContains(t, err, "at most 256 bytes")
		require.NotContains(t, err.Error(), "canary")
	}
}

func TestPublicKeys(t *testing.T) {
	t.Parallel()
	keys, err := PublicKeys("# mine\nssh-ed25519 AAAA joe@here\r\n\n  ecdsa-sha2-nistp256 AAAA\nsk-ssh-ed25519@openssh.com AAAA me\n")
	require.NoError(t, err)
	require.Equal(t, []string{
		"ssh-ed25519 AAAA joe@here", "ecdsa-sha2-nistp256 AAAA", "sk-ssh-ed25519@openssh.com AAAA me",
	}, keys)
	for _, wrong := range []string{
		"-----BEGIN OPENSSH PRIVATE KEY-----\ncanary\n", "canary", "ssh-ed25519 {canary}", "canary AAAA",
	} {
		_, err := PublicKeys("\n" + wrong)
		require.Error(t, err, wrong)
		require.NotContains(t, err.Error(), "canary")
	}
}
