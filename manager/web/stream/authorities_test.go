package stream

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Over years, each certificate in use is accepted by a runner with a current file, and by one with a file two days old.
func TestAuthoritiesSucceedEachOther(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	all, changed, err := authorities(nil).advanceTo(begin)
	require.NoError(t, err)
	require.True(t, changed)
	made := 1
	files := [][]byte{all.publicPEM()} // of the last two days
	const step = 12 * time.Hour
	for now := begin; now.Before(begin.AddDate(3, 0, 0)); now = now.Add(step) {
		leaf, err := all.issueCertificate(now)
		require.NoError(t, err)
		var next authorities
		next, changed, err = all.advanceTo(now)
		require.NoError(t, err)
		if changed && len(next) > len(all) {
			made++
		}
		all = next
		files = append(files, all.publicPEM())
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
	all, _, err := authorities(nil).advanceTo(now)
	require.NoError(t, err)
	all, changed, err := all.advanceTo(now.Add(authorityLife * 3 / 4))
	require.NoError(t, err)
	require.True(t, changed)
	require.Len(t, all, 2)
	text, err := all.secretPEM()
	require.NoError(t, err)
	again, err := parseSecret(text)
	require.NoError(t, err)
	require.Len(t, again, 2)
	for i := range all {
		require.True(t, all[i].key.Equal(again[i].key))
		require.True(t, all[i].certificate.Equal(again[i].certificate))
	}
	require.NotContains(t, string(all.publicPEM()), pemKey)

	one, err := all[:1].secretPEM()
	require.NoError(t, err)
	other, err := all[1:].secretPEM()
	require.NoError(t, err)
	end := bytes.Index(one, []byte("-----BEGIN "+pemKey))
	swapped := append(bytes.Clone(one[end:]), one[:end]...)
	damaged := func(kind string) []byte {
		block := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: []byte("x")})
		if kind == pemCertificate {
			return append(block, one[end:]...)
		}
		return append(one[:end:end], block...)
	}
	for what, wrong := range map[string][]byte{
		"no PEM": []byte("hello"), "cut": text[:len(text)-50], "without a key": all.publicPEM(), "key first": swapped,
		"no certificate": damaged(pemCertificate), "no key": damaged(pemKey),
		"another one's key": append(one[:end:end], other[bytes.Index(other, []byte("-----BEGIN "+pemKey)):]...),
	} {
		_, err := parseSecret(wrong)
		require.ErrorContains(t, err, "authority ", what)
		require.Less(t, len(err.Error()), 100, "nothing is quoted")
	}
}

// An authority is dropped after it expires, gets a successor when a third of its life is left, and signs when it has
// settled. Until an authority has settled, the oldest signs.
func TestTimesOfAuthorities(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	first, changed, err := authorities(nil).advanceTo(begin)
	require.NoError(t, err)
	require.True(t, changed)
	require.Equal(t, begin.Add(authorityLife), first[0].certificate.NotAfter)
	for after, want := range map[time.Duration]int{
		0: 1, authorityLife*2/3 - time.Second: 1, authorityLife * 2 / 3: 2, authorityLife: 2, authorityLife + 1: 1,
	} {
		next, changed, err := first.advanceTo(begin.Add(after))
		require.NoError(t, err)
		require.Len(t, next, want, after)
		require.Equal(t, after >= authorityLife*2/3, changed, after)
		require.Equal(t, after <= authorityLife, next[0].certificate.Equal(first[0].certificate), after)
		require.Len(t, first, 1, "what others read stays as it is")
	}
	_, err = authorities(nil).signerAt(begin)
	require.ErrorContains(t, err, "there is no authority")
	_, err = authorities(nil).issueCertificate(begin)
	require.ErrorContains(t, err, "there is no authority")
	renewed := begin.Add(authorityLife * 3 / 4)
	both, _, err := first.advanceTo(renewed)
	require.NoError(t, err)
	for after, want := range map[time.Duration]int{
		0: 0, settleTime - time.Second: 0, settleTime: 1, settleTime * 2: 1,
	} {
		by, err := both.signerAt(renewed.Add(after))
		require.NoError(t, err)
		require.True(t, by.certificate.Equal(both[want].certificate), after)
	}
	leaf, err := both.issueCertificate(renewed)
	require.NoError(t, err)
	require.Equal(t, renewed.Add(-skew), leaf.Leaf.NotBefore)
	require.Equal(t, renewed.Add(certificateLife), leaf.Leaf.NotAfter)
	turned, err := authorities{both[1], both[0]}.secretPEM()
	require.NoError(t, err)
	sorted, err := parseSecret(turned)
	require.NoError(t, err)
	require.True(t, sorted[0].certificate.Equal(both[0].certificate), "the oldest is first, however they are stored")
}
