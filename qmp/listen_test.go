package qmp_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/qmp"
)

func TestTheSocketIsOurs(t *testing.T) {
	t.Parallel()
	path := filepath.Join(socketDir(t), "s")
	file, err := qmp.Listen(path)
	require.NoError(t, err)
	defer file.Close()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, info.Mode())

	_, err = qmp.Listen(path)
	require.ErrorIs(t, err, syscall.EADDRINUSE, "it has a listener")
	require.NoError(t, file.Close())
	file, err = qmp.Listen(path)
	require.NoError(t, err, "it no longer has a listener")
	require.NoError(t, file.Close())
}

func TestWhereNoSocketCanBe(t *testing.T) {
	t.Parallel()
	dir := socketDir(t)
	plain := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(plain, []byte("precious"), 0o600))
	long := filepath.Join(dir, strings.Repeat("x", 107))

	_, err := qmp.Listen(plain)
	require.EqualError(t, err, "listen on QMP socket "+plain+": bind: address already in use")
	require.FileExists(t, plain)
	_, err = qmp.Listen(filepath.Join(dir, "none", "s"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = qmp.Listen(long)
	require.ErrorContains(t, err, "a Unix socket's may have 107")

	_, err = qmp.Dial(timeout(t), filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "connect to QMP socket ")
}
