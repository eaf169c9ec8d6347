package atomicfile_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/atomicfile"
)

// withoutSync calls f in a thread where every fsync(2) fails with EIO. The thread then ends.
func withoutSync(t *testing.T, f func() error) error {
	t.Helper()
	deny := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0}, // the number of the system call
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FSYNC, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EIO)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(deny)), Filter: &deny[0]}
	var filtered error
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if filtered = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); filtered == nil {
			at := uintptr(unsafe.Pointer(&program))
			filtered = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, at, 0, 0)
		}
		done <- f()
	}()
	err := <-done
	require.NoError(t, filtered)
	return err
}

// A durable write fails if the file or its name cannot be synced. Other writes do not sync.
func TestWhatMustSurviveAPowerCutIsSynced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	text := []byte("new")
	for what, call := range map[string]func() error{
		"Write":   func() error { return atomicfile.Write(file, text, 0o600, atomicfile.Synced) },
		"Rewrite": func() error { return atomicfile.Rewrite(file, text) },
		"Create":  func() error { return atomicfile.Create(filepath.Join(dir, "another"), text, 0o600) },
		"Sync":    func() error { return atomicfile.Sync(file) },
	} {
		require.ErrorIs(t, withoutSync(t, call), unix.EIO, what)
		is(t, file, "old")
	}
	require.ErrorIs(t, withoutSync(t, func() error { return atomicfile.SyncFolder(dir) }), unix.EIO)
	require.ErrorIs(t, atomicfile.Sync(filepath.Join(dir, "absent")), os.ErrNotExist)
	require.ErrorIs(t, atomicfile.SyncFolder(filepath.Join(dir, "absent")), os.ErrNotExist)
	require.ErrorIs(t, withoutSync(t, func() error { return atomicfile.Rename(file, file+"2") }), unix.EIO)

	require.NoError(t, withoutSync(t, func() error {
		return atomicfile.Write(file+"2", text, 0o600, atomicfile.Volatile)
	}))
	is(t, file+"2", "new")
	require.NoError(t, withoutSync(t, func() error { return atomicfile.Link("file2", filepath.Join(dir, "link")) }))
}
