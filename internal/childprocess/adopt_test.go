package childprocess_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/internal/childprocess"
	"vmop/test/wait"
)

// An upstart is a shell's child process, not ours. It ends on SIGTERM.
type upstart struct {
	pid  int
	end  *os.File // closing it ends the process
	shed *childprocess.Process
}

// upstartBy starts an upstart in its own process group. Its script waits with `read x <&3`, and the shell continues
// with another script.
func upstartBy(t testing.TB, script, shell string) upstart {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { w.Close() })
	defer r.Close()
	parent, log := start(t, sh(`setsid sh -c 'echo $$; `+script+`' 2>/dev/null & `+shell, r))
	pid, err := strconv.Atoi(log.firstLine(t))
	require.NoError(t, err)
	return upstart{pid, w, parent}
}

// id returns the identity that childprocess.Start would have recorded for the process.
func id(t testing.TB, pid int) childprocess.ID {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	require.NoError(t, err)
	fields := strings.Fields(string(text)) // the names in these tests contain no blanks
	started, err := strconv.ParseUint(fields[21], 10, 64)
	require.NoError(t, err)
	return childprocess.ID{PID: pid, Start: started}
}

func adopt(t testing.TB, id childprocess.ID) *childprocess.Process {
	p, err := childprocess.Adopt(id, "adopted", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return p
}

func TestAProcessHasAnIdentity(t *testing.T) {
	t.Parallel()
	p, log := start(t, sh("echo ready; sleep 1000"))
	log.firstLine(t)
	require.Equal(t, id(t, p.Pid()), p.ID())
	text, err := json.Marshal(p.ID())
	require.NoError(t, err)
	var again childprocess.ID
	require.NoError(t, json.Unmarshal(text, &again))
	require.Equal(t, p.ID(), again)
	require.Contains(t, string(text), `{"pid":`)

	quick, _ := start(t, sh("exit 0"))
	hasEnded(t, quick)
	require.NotZero(t, quick.ID().Start, "also of one that has ended at once")
}

// /proc shows a program's name in parentheses, and the name may look like the rest of the line.
func TestAProgramMayHaveAnyName(t *testing.T) {
	t.Parallel()
	sleep, err := exec.LookPath("sleep")
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), "a) Z 1 (b\n")
	text, err := os.ReadFile(sleep)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(program, text, 0o700))
	p, _ := start(t, childprocess.Spec{Name: "odd", Path: program, Args: []string{"1000"}})
	awaitName(t, p.Pid(), strings.TrimSpace(filepath.Base(program)))
	plain, _ := start(t, sh("sleep 1000"))
	require.InDelta(t, plain.ID().Start, p.ID().Start, 100*wait.Longest.Seconds())
	adopted := adopt(t, p.ID())
	require.NoError(t, adopted.Terminate(t.Context(), wait.Longest))
}

func TestHowAdoptedProcessesEnd(t *testing.T) {
	t.Parallel()
	const orphan, collected, neglected = "read x <&3", "wait", "exec sleep 1000"
	for name, c := range map[string]struct {
		script, shell string
		exit          childprocess.Exit
	}{
		"collected, by itself": {"read x <&3; exit 7", collected, childprocess.Exit{Code: 7}},
		"collected, by a signal": {
			"read x <&3; kill -SEGV $$", collected,
			childprocess.Exit{Code: -1, Signal: syscall.SIGSEGV},
		},
		"neglected, by itself": {"read x <&3; exit 7", neglected, childprocess.Exit{Code: 7}},
		"neglected, well":      {"read x <&3", neglected, childprocess.Exit{Code: 1}},
		"neglected, by a signal": {
			"read x <&3; kill -9 $$", neglected,
			childprocess.Exit{Code: -1, Signal: syscall.SIGKILL},
		},
		"an orphan": {"read x <&3; exit 7", orphan, childprocess.Exit{Code: 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := upstartBy(t, c.script, c.shell)
			if c.shell == orphan {
				require.NoError(t, up.shed.Terminate(t.Context(), wait.Longest))
			}
			p := adopt(t, id(t, up.pid))
			require.Equal(t, up.pid, p.Pid())
			require.Equal(t, id(t, up.pid), p.ID())
			require.Equal(t, "adopted", p.Name())
			require.NoError(t, p.Signal(syscall.SIGCONT))
			require.Zero(t, p.Exit(), "it runs")
			require.NoError(t, up.end.Close())
			exit := hasEnded(t, p)
			if exit == (childprocess.Exit{Code: -1}) { // the parent was faster, and the kernel reports no exit status
				require.NotEqual(t, neglected, c.shell, "nothing can be quicker here")
				require.False(t, kernelTells(t))
			} else {
				require.Equal(t, c.exit, exit)
			}
			require.Empty(t, p.Tail())
			require.ErrorIs(t, p.Signal(syscall.SIGTERM), os.ErrProcessDone)
			require.NoError(t, p.Terminate(t.Context(), 0))
		})
	}
}

// kernelTells reports whether the kernel provides the exit status of a process that another process has reaped.
func kernelTells(t *testing.T) bool {
	t.Helper()
	fd, err := unix.PidfdOpen(os.Getpid(), 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	return !errors.Is(unix.IoctlPidfdInfo(fd, &info), unix.ENOTTY)
}

func TestAChildCanBeAdoptedToo(t *testing.T) {
	t.Parallel()
	child := exec.CommandContext(t.Context(), "/bin/sh", "-c", "read x; exit 9")
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	p := adopt(t, id(t, child.Process.Pid))
	require.NoError(t, in.Close())
	require.Equal(t, childprocess.Exit{Code: 9}, hasEnded(t, p))
	require.NoDirExists(t, "/proc/"+strconv.Itoa(p.Pid()), "it is collected")
}

func TestTerminateOfAnAdoptedProcess(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		sig    syscall.Signal
	}{
		"listens":         {"read x <&3", syscall.SIGTERM},
		"is stopped":      {"kill -STOP $$; read x <&3", syscall.SIGTERM},
		"does not listen": {`trap "" TERM; read x <&3`, syscall.SIGKILL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			up := upstartBy(t, c.script, "exec sleep 1000")
			p := adopt(t, id(t, up.pid))
			if c.sig == syscall.SIGKILL {
				wait.Until(t, func() bool { return ignoresTerm(t, up.pid) })
				require.NoError(t, p.Terminate(t.Context(), 1e6))
			} else {
				require.NoError(t, p.Terminate(t.Context(), wait.Longest))
			}
			require.Equal(t, childprocess.Exit{Code: -1, Signal: c.sig}, p.Exit())
		})
	}
}

// ignoresTerm reports whether a process ignores SIGTERM, from its mask of ignored signals.
func ignoresTerm(t testing.TB, pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "\nSigIgn:\t")
	require.True(t, found)
	mask, err := strconv.ParseUint(rest[:16], 16, 64)
	require.NoError(t, err)
	return mask&(1<<(syscall.SIGTERM-1)) != 0
}

func TestWhatAnAdoptedProcessLeavesInItsGroupIsKilled(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "pid")
	require.NoError(t, syscall.Mkfifo(out, 0o600))
	up := upstartBy(t, "sleep 1000 & echo $! >"+out+"; read x <&3", "wait")
	text, err := os.ReadFile(out)
	require.NoError(t, err)
	left, err := strconv.Atoi(strings.TrimSpace(string(text)))
	require.NoError(t, err)
	rest := adopt(t, id(t, left))
	p := adopt(t, id(t, up.pid))
	require.NoError(t, up.end.Close())
	hasEnded(t, p)
	if kernelTells(t) { // since 6.15; groups can be signaled through a handle since 6.9
		hasEnded(t, rest)
	}
	require.NoError(t, rest.Terminate(t.Context(), 0))
}

func TestWhatCannotBeAdopted(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	up := upstartBy(t, "read x <&3", "exec sleep 1000")
	running := id(t, up.pid)
	other := childprocess.ID{PID: up.pid, Start: running.Start - 1}
	_, err := childprocess.Adopt(other, "swtpm", log)
	require.ErrorIs(t, err, os.ErrProcessDone)
	require.EqualError(t, err, "adopt swtpm: process "+strconv.Itoa(up.pid)+": os: process already finished")
	_, err = childprocess.Adopt(childprocess.ID{}, "swtpm", log)
	require.ErrorIs(t, err, os.ErrInvalid)
	require.False(t, other.Runs())
	require.True(t, running.Runs())

	p := adopt(t, running)
	require.NoError(t, up.end.Close())
	hasEnded(t, p)
	require.DirExists(t, "/proc/"+strconv.Itoa(up.pid), "it has not been collected")
	require.False(t, running.Runs())
	_, err = childprocess.Adopt(running, "swtpm", log)
	require.ErrorIs(t, err, os.ErrProcessDone)
	require.NoError(t, up.shed.Terminate(t.Context(), 0))
	wait.Until(t, func() bool {
		_, err := os.Stat("/proc/" + strconv.Itoa(up.pid))
		return errors.Is(err, os.ErrNotExist)
	})
	_, err = childprocess.Adopt(running, "swtpm", log)
	require.ErrorIs(t, err, os.ErrProcessDone)
}

// This test is not parallel because it counts resources of the whole test program.
func TestAdoptedProcessesCostNoThreadAndNoDescriptorForEver(t *testing.T) {
	count := func(what string) int {
		entries, err := os.ReadDir("/proc/self/" + what)
		require.NoError(t, err)
		return len(entries)
	}
	have := func(many int, then func()) {
		var upstarts []upstart
		var adopted []*childprocess.Process
		for range many {
			up := upstartBy(t, "read x <&3", "wait")
			upstarts, adopted = append(upstarts, up), append(adopted, adopt(t, id(t, up.pid)))
		}
		then()
		for i, p := range adopted {
			require.NoError(t, upstarts[i].end.Close())
			hasEnded(t, p)
			hasEnded(t, upstarts[i].shed)
		}
	}
	have(1, func() {}) // Go's poller opens its own descriptors on first use
	threads, descriptors := count("task"), count("fd")
	const many = 64
	// A started process costs one thread in the shell.
	have(many, func() { require.Less(t, count("task"), threads+many+many/2) })
	wait.Until(t, func() bool { return count("fd") <= descriptors })
}

func TestHolders(t *testing.T) { // not parallel: a child forked by another test holds the lock until its exec
	dir := t.TempDir()
	path, link, other := filepath.Join(dir, "lock"), filepath.Join(dir, "link"), filepath.Join(dir, "other")
	lock, err := os.Create(path)
	require.NoError(t, err)
	defer lock.Close()
	require.NoError(t, os.Link(path, link))
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	found, err := childprocess.Holders(path)
	require.NoError(t, err)
	require.Empty(t, found, "this process does not count")

	inherited, log := start(t, sh("echo ready; exec sleep 1000", lock))
	log.firstLine(t)
	opened, log := start(t, sh("exec 9<"+link+"; echo ready; exec sleep 1000"))
	log.firstLine(t)
	_, log = start(t, sh("exec 9<"+other+"; echo ready; exec sleep 1000"))
	log.firstLine(t)
	found, err = childprocess.Holders(path)
	require.NoError(t, err)
	require.ElementsMatch(t, []childprocess.ID{inherited.ID(), opened.ID()}, found)

	require.NoError(t, inherited.Terminate(t.Context(), wait.Longest))
	require.NoError(t, os.Remove(path))
	found, err = childprocess.Holders(link)
	require.NoError(t, err)
	require.Equal(t, []childprocess.ID{opened.ID()}, found)
	_, err = childprocess.Holders(path)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "find the processes that have "+path+" open: ")
}

func TestSocketHolders(t *testing.T) { // not parallel, like TestHolders
	dir, err := os.MkdirTemp("", "p") // a short path
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	for _, name := range []string{filepath.Join(dir, "a socket"), "@vmop-test " + dir} {
		l, err := net.Listen("unix", name)
		require.NoError(t, err)
		socket, err := l.(*net.UnixListener).File()
		require.NoError(t, err)
		heir, log := start(t, sh("echo ready; exec sleep 1000", socket))
		log.firstLine(t)
		require.NoError(t, socket.Close())
		require.NoError(t, l.Close()) // removes the path but not the socket
		found, err := childprocess.SocketHolders(name)
		require.NoError(t, err)
		require.Equal(t, []childprocess.ID{heir.ID()}, found)
		wait.Until(t, func() bool { // the shell becomes sleep
			words, err := found[0].Arguments()
			return err == nil && slices.Equal(words, []string{"sleep", "1000"})
		})
		require.WithinDuration(t, time.Now(), found[0].Began(), wait.Longest)

		require.NoError(t, heir.Terminate(t.Context(), wait.Longest))
		found, err = childprocess.SocketHolders(name)
		require.NoError(t, err)
		require.Empty(t, found)
	}
	found, err := childprocess.SocketHolders("")
	require.NoError(t, err)
	require.Empty(t, found)
}
