package stream

import (
	"bytes"
	"crypto/x509"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Over years of hourly steps: a certificate that is in use is accepted by a runner whose
// file is two days old, and by one whose file is new.
func TestAuthoritiesSucceedEachOther(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	all, changed, err := authorities(nil).advance(begin)
	require.NoError(t, err)
	require.True(t, changed)
	made := 1
	files := [][]byte{all.public()} // of the last two days
	const step = 12 * time.Hour
	for now := begin; now.Before(begin.AddDate(3, 0, 0)); now = now.Add(step) {
		leaf, err := all.issue(now)
		require.NoError(t, err)
		var next authorities
		next, changed, err = all.advance(now)
		require.NoError(t, err)
		if changed && len(next) > len(all) {
			made++
		}
		all = next
		files = append(files, all.public())
		files = files[max(0, len(files)-int(settleTime/step)):]
		for _, file := range [][]byte{files[0], files[len(files)-1]} {
			pool := x509.NewCertPool()
			require.True(t, pool.AppendCertsFromPEM(file))
			for _, at := range []time.Time{now.Add(-skew), now, now.Add(certificateLife)} {
				_, err := leaf.Leaf.Verify(x509.VerifyOptions{
					Roots: pool, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
				})
				require.NoError(t, err, "at %s, %s after the beginning", at, at.Sub(begin))
			}
		}
		require.LessOrEqual(t, len(all), 2)
	}
	require.Equal(t, 5, made, "one each 240 days")
}

func TestSecretOfAuthorities(t *testing.T) {
	t.Parallel()
	now := time.Now()
	all, _, err := authorities(nil).advance(now)
	require.NoError(t, err)
	all, changed, err := all.advance(now.Add(authorityLife * 3 / 4))
	require.NoError(t, err)
	require.True(t, changed)
	require.Len(t, all, 2)
	text, err := all.secret()
	require.NoError(t, err)
	again, err := parse(text)
	require.NoError(t, err)
	require.Len(t, again, 2)
	for i := range all {
		require.True(t, all[i].key.Equal(again[i].key))
		require.True(t, all[i].certificate.Equal(again[i].certificate))
	}
	require.NotContains(t, string(all.public()), pemKey)

	one, err := all[:1].secret()
	require.NoError(t, err)
	other, err := all[1:].secret()
	require.NoError(t, err)
	end := bytes.Index(one, []byte("-----BEGIN "+pemKey))
	for what, wrong := range map[string][]byte{
		"no PEM": []byte("hello"), "cut": text[:len(text)-50], "without a key": all.public(),
		"another one's key": append(one[:end:end], other[bytes.Index(other, []byte("-----BEGIN "+pemKey)):]...),
	} {
		_, err := parse(wrong)
		require.ErrorContains(t, err, "authority ", what)
		require.Less(t, len(err.Error()), 100, "nothing is quoted")
	}
}
