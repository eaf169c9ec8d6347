package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// beside returns a directory with one file in it.
func beside(t *testing.T, name, content string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	return dir
}

func TestReadDisplayPassword(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"tops":                     "tops",
		"tops\n":                   "tops",
		"tops\r\n":                 "tops",
		" to ps ":                  " to ps ",
		"pässwörter\n":             "pässwörter",
		strings.Repeat("tops", 15): strings.Repeat("tops", 15),
	} {
		password, found, err := ReadDisplayPassword(beside(t, "display-password", content))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, password.Reveal())
		require.True(t, password.Equal(NewPassword(want)))
	}

	_, found, err := ReadDisplayPassword(t.TempDir())
	require.NoError(t, err)
	require.False(t, found)

	for content, want := range map[string]string{
		"":                           "the password is empty; remove the file to have none",
		"\n":                         "the password is empty; remove the file to have none",
		"tops\n\n":                   "the password holds a line break or another control character",
		"to\x00ps":                   "the password holds a line break or another control character",
		strings.Repeat("tops", 16):   "the password has 64 bytes, and SPICE takes at most 60",
		strings.Repeat("tops", 2000): "the file has 8000 bytes (the maximum is 4 KiB)",
	} {
		dir := beside(t, "display-password", content)
		_, found, err := ReadDisplayPassword(dir)
		require.EqualError(t, err, "read "+filepath.Join(dir, "display-password")+": "+want)
		require.NotContains(t, err.Error(), "tops")
		require.False(t, found)
	}

	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "display-password"), 0o700))
	_, _, err = ReadDisplayPassword(dir)
	require.EqualError(t, err, "read "+filepath.Join(dir, "display-password")+": is a directory")
}

func TestReadPasswordExpiry(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"now": "now", "never\n": "never", " +10\n": "+10",
		"1785000000": "1785000000",
	} {
		expiry, found, err := ReadPasswordExpiry(beside(t, "password-expiry", content))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, expiry)
	}
	for _, content := range []string{"", "soon", "-1", "+", "1.5", "10 s", "99999999999999999999"} {
		dir := beside(t, "password-expiry", content)
		_, _, err := ReadPasswordExpiry(dir)
		require.EqualError(t, err, fmt.Sprintf("read %s: %q is not a time of expiry; use now, never, +n (in n seconds) or n (seconds since 1970)",
			filepath.Join(dir, "password-expiry"), content))
	}
	_, found, err := ReadPasswordExpiry(t.TempDir())
	require.NoError(t, err)
	require.False(t, found)
}

func TestPasswordsHide(t *testing.T) {
	t.Parallel()
	password := NewPassword("secret")
	within := struct {
		private Password
		Public  *Password
		List    []Password
	}{password, &password, []Password{password}}

	var printed bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&printed, verb, password)
		fmt.Fprintf(&printed, verb, &password)
		fmt.Fprintf(&printed, verb, within)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(handler).Info("password", "password", password, "within", within)
	}
	require.NoError(t, json.NewEncoder(&printed).Encode(within))
	require.NotContains(t, printed.String(), "secret")
	require.NotContains(t, printed.String(), "736563", "in hexadecimal")
	require.Contains(t, printed.String(), "(hidden)")
	require.Empty(t, Password{}.Reveal())
}
