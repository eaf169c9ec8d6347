package filewatch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
	"vmop/test/wait"
)

// An observer watches files like a runner.
type observer struct {
	t       *testing.T
	file    string
	changes <-chan struct{}
}

// observe watches files and returns when the watch is active.
func observe(t *testing.T, files ...string) *observer {
	t.Helper()
	o := &observer{t: t, file: files[0], changes: Files(t.Context(), slog.New(slog.DiscardHandler), files...)}
	o.told()
	return o
}

// told waits for a notification.
func (o *observer) told() {
	o.t.Helper()
	select {
	case _, open := <-o.changes:
		require.True(o.t, open, "the watch has ended")
	case <-wait.Over(o.t):
		require.Fail(o.t, "no notification")
	}
}

// reads waits until a file, read after each notification, contains the text.
func (o *observer) reads(text string) {
	o.t.Helper()
	for {
		o.told()
		if data, err := os.ReadFile(o.file); err == nil && string(data) == text {
			return
		}
	}
}

// folder is a test's working folder. Errors fail the test.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) folder {
	path, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return folder{t, path}
}

func (f folder) at(name string) string { return filepath.Join(f.path, name) }
func (f folder) do(err error)          { f.t.Helper(); require.NoError(f.t, err) }
func (f folder) mkdir(name string)     { f.t.Helper(); f.do(os.MkdirAll(f.at(name), 0o755)) }
func (f folder) remove(name string)    { f.t.Helper(); f.do(os.RemoveAll(f.at(name))) }
func (f folder) rename(from, to string) {
	f.t.Helper()
	f.do(os.Rename(f.at(from), f.at(to)))
}

func (f folder) link(target, name string) {
	f.t.Helper()
	f.do(os.Symlink(target, f.at(name)))
}

func (f folder) write(name, text string) {
	f.t.Helper()
	f.do(os.WriteFile(f.at(name), []byte(text), 0o600))
}

// swap atomically points a name to another file, like kubelet and editors.
func (f folder) swap(target, name string) {
	f.t.Helper()
	f.do(os.Symlink(target, f.at(name+"_tmp")))
	f.do(os.Rename(f.at(name+"_tmp"), f.at(name)))
}

// volume installs a version of a ConfigMap or Secret like kubelet (AtomicWriter in Kubernetes' pkg/volume/util).
func (f folder) volume(version int, files map[string]string) {
	f.t.Helper()
	before, _ := os.Readlink(f.at("..data")) // "" the first time
	data := fmt.Sprintf("..version_%d", version)
	f.mkdir(data)
	for name, text := range files {
		f.write(data+"/"+name, text)
	}
	f.swap(data, "..data")
	for name := range files {
		if _, err := os.Lstat(f.at(name)); err != nil {
			f.link("..data/"+name, name)
		}
	}
	if before != "" {
		f.remove(before)
	}
}

// Each case creates the initial state, and then changes it so that the file contains "new". The watched path is
// vm/config.yaml below the folder.
var changes = map[string]struct{ first, then func(f folder) }{
	"written in place": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) { f.write("vm/config.yaml", "new") },
	},
	"an editor's rename": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) {
			f.write("vm/.config.yaml.swp", "new")
			f.rename("vm/.config.yaml.swp", "vm/config.yaml")
		},
	},
	"an editor's backup": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) { f.rename("vm/config.yaml", "vm/config.yaml~"); f.write("vm/config.yaml", "new") },
	},
	"deleted and made anew": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) { f.remove("vm/config.yaml"); f.write("vm/config.yaml", "new") },
	},
	"absent at first": {
		func(folder) {},
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "new") },
	},
	"the folder deleted and made anew": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) { f.remove("vm"); f.mkdir("vm"); f.write("vm/config.yaml", "new") },
	},
	"the folder replaced": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) {
			f.mkdir("next")
			f.write("next/config.yaml", "new")
			f.rename("vm", "last")
			f.rename("next", "vm")
		},
	},
	"the folder is a symbolic link that is swapped": {
		func(f folder) { f.mkdir("a/b"); f.write("a/b/config.yaml", "old"); f.link("a/b", "vm") },
		func(f folder) { f.mkdir("c"); f.write("c/config.yaml", "new"); f.swap(f.at("c"), "vm") },
	},
	"the folder is a symbolic link, the file is written": {
		func(f folder) { f.mkdir("a/b"); f.write("a/b/config.yaml", "old"); f.link("./a/../a/b/", "vm") },
		func(f folder) { f.write("a/b/config.yaml", "new") },
	},
	"the folder above is replaced": {
		func(f folder) { f.mkdir("a/b/c"); f.write("a/b/c/config.yaml", "old"); f.link("a/b/c", "vm") },
		func(f folder) {
			f.mkdir("n/b/c")
			f.write("n/b/c/config.yaml", "new")
			f.rename("a", "o")
			f.rename("n", "a")
		},
	},
	"the file is a symbolic link, its target is written": {
		func(f folder) { f.mkdir("vm"); f.mkdir("a"); f.write("a/x", "old"); f.link("../a/x", "vm/config.yaml") },
		func(f folder) { f.write("a/x", "new") },
	},
	"the file is a symbolic link to nothing, the target appears": {
		func(f folder) { f.mkdir("vm"); f.link("../a/x", "vm/config.yaml") },
		func(f folder) { f.mkdir("a"); f.write("a/x", "new") },
	},
	"a loop of symbolic links is undone": {
		func(f folder) { f.link("loop", "vm"); f.link("vm", "loop") },
		func(f folder) { f.remove("loop"); f.mkdir("loop"); f.write("loop/config.yaml", "new") },
	},
	"written by another name": {
		func(f folder) {
			f.mkdir("vm")
			f.write("vm/config.yaml", "old")
			f.do(os.Link(f.at("vm/config.yaml"), f.at("other")))
		},
		func(f folder) { f.write("other", "new") },
	},
	"a ConfigMap's next version": {
		func(f folder) {
			f.mkdir("vm")
			folder{f.t, f.at("vm")}.volume(1, map[string]string{"config.yaml": "old"})
		},
		func(f folder) { folder{f.t, f.at("vm")}.volume(2, map[string]string{"config.yaml": "new"}) },
	},
	"a ConfigMap appears": {
		func(f folder) { f.mkdir("vm") },
		func(f folder) { folder{f.t, f.at("vm")}.volume(1, map[string]string{"config.yaml": "new"}) },
	},
	"a folder in its place": {
		func(f folder) { f.mkdir("vm/config.yaml") },
		func(f folder) { f.remove("vm/config.yaml"); f.write("vm/config.yaml", "new") },
	},
	"a file in the place of its folder": {
		func(f folder) { f.write("vm", "no folder") },
		func(f folder) { f.remove("vm"); f.mkdir("vm"); f.write("vm/config.yaml", "new") },
	},
	"by a writer that keeps it open": {
		func(f folder) { f.mkdir("vm"); f.write("vm/config.yaml", "old") },
		func(f folder) {
			open, err := os.OpenFile(f.at("vm/config.yaml"), os.O_WRONLY, 0)
			f.do(err)
			f.t.Cleanup(func() { f.do(open.Close()) })
			_, err = open.WriteString("new")
			f.do(err)
		},
	},
}

func TestEveryKindOfChangeIsSeen(t *testing.T) {
	t.Parallel()
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			c.first(f)
			o := observe(t, f.at("vm/config.yaml"))
			c.then(f)
			o.reads("new")
			f.write("vm/config.yaml", "last") // the watch follows the new path
			o.reads("last")
		})
	}
}

// Polling with a fake clock and real files detects every kind of change.
func TestEveryKindOfChangeIsSeenByLooking(t *testing.T) {
	t.Parallel()
	for name, c := range changes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFolder(t)
			c.first(f)
			synctest.Test(t, func(t *testing.T) {
				o, log := polling(t, f.at("vm/config.yaml"))
				o.told()
				c.then(f)
				o.reads("new")
				f.write("vm/config.yaml", "last")
				o.reads("last")
				require.Equal(t, 1, strings.Count(log.String(), "\n"))
			})
		})
	}
}

// polling watches a file when the kernel refuses to.
func polling(t *testing.T, file string) (*observer, *bytes.Buffer) {
	t.Helper()
	log := &bytes.Buffer{}
	w := newWatch(slog.New(slog.NewTextHandler(log, nil)), []string{file})
	w.open = func(context.Context, []string) (watcher, error) {
		return nil, errors.New("watch files: no space left on device")
	}
	go w.runWatch(t.Context())
	return &observer{t, file, w.changes}, log
}

// Polling reports a change twice, because a second change within the file system's timestamp resolution would look the
// same.
func TestPollingReportsTwice(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("config.yaml", "old")
	synctest.Test(t, func(t *testing.T) {
		o, log := polling(t, f.at("config.yaml"))
		o.told()
		require.Contains(t, log.String(), `level=WARN msg="files are polled for changes every second" err="watch files: no space left on device"`)
		f.write("config.yaml", "1st")
		info, err := os.Stat(f.at("config.yaml"))
		f.do(err)
		o.told()
		f.write("config.yaml", "2nd")
		f.do(os.Chtimes(f.at("config.yaml"), time.Time{}, info.ModTime()))
		o.reads("2nd")
		time.Sleep(time.Minute)
		require.Empty(t, o.changes, "all has been reported")
	})
}

func TestSeveralFilesAreWatched(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.volume(1, map[string]string{"config.yaml": "same"})
	o := observe(t, f.at("config.yaml"), f.at("display-password"), f.at("password-expiry"))
	for version, files := range []map[string]string{
		{"display-password": "secret"},
		{"display-password": "other"},
		{"display-password": "other", "password-expiry": "+60"},
		{"display-password": "", "password-expiry": "never"},
	} {
		files["config.yaml"] = "same"
		f.volume(version+2, files)
		for wanted := range files {
			for data, err := os.ReadFile(f.at(wanted)); err != nil || string(data) != files[wanted]; {
				o.told()
			}
		}
		o.told()
	}
}

func TestRightsAreWatched(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.mkdir("vm")
	f.write("vm/config.yaml", "text")
	o := observe(t, f.at("vm/config.yaml"))
	for _, name := range []string{"vm/config.yaml", "vm"} {
		f.do(os.Chmod(f.at(name), 0))
		o.told()
		f.do(os.Chmod(f.at(name), 0o700))
		o.told()
	}
}

// The last of many swaps is always detected, even between reading an event and following the path again.
func TestFault22TheLastOfManySwapsIsSeen(t *testing.T) {
	t.Parallel()
	const swaps = 50
	f := newFolder(t)
	f.volume(0, map[string]string{"config.yaml": "0"})
	o := observe(t, f.at("config.yaml"))
	version := 0
	for range tier.Rounds(20) {
		for range swaps {
			version++
			f.volume(version, map[string]string{"config.yaml": strconv.Itoa(version)})
			time.Sleep(10 * time.Millisecond)
		}
		o.reads(strconv.Itoa(version))
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("config.yaml", "text")
	ctx, cancel := context.WithCancel(t.Context())
	changes := Files(ctx, slog.New(slog.DiscardHandler), f.at("config.yaml"))
	<-changes
	cancel()
	for range changes { // ends when the channel is closed
	}
}

// A script is a watcher that reports changes at given times.
type script struct {
	start time.Time
	at    []time.Duration
}

func (s *script) wait(ctx context.Context, deadline time.Time) (bool, error) {
	s.at = slices.DeleteFunc(s.at, func(at time.Duration) bool { return s.start.Add(at).Before(time.Now()) })
	if len(s.at) > 0 && (deadline.IsZero() || s.start.Add(s.at[0]).Before(deadline)) {
		time.Sleep(time.Until(s.start.Add(s.at[0])))
		s.at = s.at[1:]
		return true, nil
	}
	if deadline.IsZero() {
		<-ctx.Done()
		return false, ctx.Err()
	}
	time.Sleep(time.Until(deadline))
	return false, nil
}

func (s *script) close() {}

// Steps in quick succession are reported together, at the latest after 200 ms. After each step except the first, the
// watch waits for 1 ms.
func TestChangesAreToldTogether(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	var endless []time.Duration
	for at := time.Second; at < 1500*ms; at += 2 * ms {
		endless = append(endless, at)
	}
	for name, c := range map[string]struct{ changes, told []time.Duration }{
		"one step":               {[]time.Duration{1000 * ms}, []time.Duration{1010 * ms}},
		"three steps":            {[]time.Duration{1000 * ms, 1005 * ms, 1012 * ms}, []time.Duration{1023 * ms}},
		"two changes":            {[]time.Duration{1000 * ms, 1011 * ms}, []time.Duration{1010 * ms, 1021 * ms}},
		"changes without an end": {endless, []time.Duration{1200 * ms, 1400 * ms, 1509 * ms}},
		"slower than it is quiet": {
			[]time.Duration{1000 * ms, 1030 * ms, 1060 * ms},
			[]time.Duration{1010 * ms, 1040 * ms, 1070 * ms},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				w := newWatch(slog.New(slog.DiscardHandler), nil)
				w.open = func(context.Context, []string) (watcher, error) { return &script{start, c.changes}, nil }
				go w.runWatch(ctx)
				<-w.changes // the first change
				var told []time.Duration
				for range w.changes {
					told = append(told, time.Since(start))
				}
				require.Equal(t, c.told, told)
			})
		})
	}
}
