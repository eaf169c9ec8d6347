package filewatch

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// unread returns the number of bytes of unread events.
func (w *inotify) unread(t *testing.T) (n int) {
	t.Helper()
	require.NoError(t, w.controlDescriptor(func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	}))
	return n
}

// Writes to other files cause no events: a guest that writes to a disk image next to the configuration would wake the
// runner each time.
func TestWritesToOtherFilesMakeNoEvents(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("config.yaml", "text")
	f.write("disk.img", "")
	disk, err := os.OpenFile(f.at("disk.img"), os.O_RDWR, 0)
	f.do(err)
	defer disk.Close()
	w, err := listenToKernel(t.Context(), []string{f.at("config.yaml"), f.at("display-password")})
	f.do(err)
	defer w.close()
	for range 100 {
		_, err = disk.WriteAt([]byte("block"), 4096)
		f.do(err)
		f.do(disk.Sync())
		_, err = os.ReadFile(f.at("config.yaml")) // like the runner
		f.do(err)
	}
	f.do(disk.Truncate(1 << 20))
	require.Zero(t, w.(*inotify).unread(t))
	f.write("config.yaml", "next")
	require.NotZero(t, w.(*inotify).unread(t))
}

// Changes to other names are not reported.
func TestOtherNamesDoNotMatter(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.mkdir("vm")
	f.write("vm/config.yaml", "text")
	eyes, err := listenToKernel(t.Context(), []string{f.at("vm/config.yaml"), f.at("vm/display-password")})
	f.do(err)
	defer eyes.close()
	w := eyes.(*inotify)
	f.write("vm/other", "text")
	f.rename("vm/other", "vm/another")
	f.remove("vm/another")
	f.write("beside", "text")
	require.NotZero(t, w.unread(t))
	n, err := w.file.Read(w.buffer)
	f.do(err)
	matters, moved := w.judgeEvents(w.buffer[:n])
	require.False(t, matters)
	require.False(t, moved)
}

// Repeated changes of the path's target leave no old watches behind.
func TestWatchesOfOldPathsAreGone(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.volume(0, map[string]string{"config.yaml": "text"})
	eyes, err := listenToKernel(t.Context(), []string{f.at("config.yaml"), f.at("display-password")})
	f.do(err)
	defer eyes.close()
	w := eyes.(*inotify)
	before := watchesIn(t, w)
	for version := range 10 {
		f.volume(version+1, map[string]string{"config.yaml": "text"})
		_, err := w.wait(t.Context(), time.Time{})
		f.do(err)
		f.do(w.watchAll())
	}
	require.Equal(t, before, watchesIn(t, w))
}

// watchesIn counts the kernel's watches; see proc(5), fdinfo.
func watchesIn(t *testing.T, w *inotify) (n int) {
	t.Helper()
	require.NoError(t, w.controlDescriptor(func(fd int) error {
		info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
		n = bytes.Count(info, []byte("inotify wd:"))
		return err
	}))
	return n
}

// Changes are detected even when the kernel has no watches left. The test uses a user namespace with an exhausted
// limit.
func TestLimitOfInotify(t *testing.T) {
	t.Parallel()
	const limit = "/proc/sys/user/max_inotify_instances"
	if os.Getenv("WATCH_WITHOUT_INOTIFY") != "" {
		require.NoError(t, os.WriteFile(limit, []byte("0"), 0))
		f := newFolder(t)
		f.write("config.yaml", "old")
		log := &bytes.Buffer{}
		changes := Files(t.Context(), slog.New(slog.NewTextHandler(log, nil)), f.at("config.yaml"))
		o := &observer{t, f.at("config.yaml"), changes}
		o.told()
		f.write("config.yaml", "new")
		o.reads("new")
		require.Contains(t, log.String(), `err="watch files: open inotify: too many open files"`)
		return
	}
	inside := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestLimitOfInotify$", "-test.v")
	inside.Env = append(os.Environ(), "WATCH_WITHOUT_INOTIFY=1")
	inside.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	output, err := inside.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.Contains(t, string(output), "--- PASS: TestLimitOfInotify")
}
