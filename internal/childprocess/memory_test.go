package childprocess

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMemoryGroup(t *testing.T) {
	t.Parallel()
	const second = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	const first = "14 35 0:31 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n" +
		"15 35 0:32 /kubepods /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
	for _, test := range []struct{ groups, mounts, want string }{
		{"0::/system.slice/vmrunner@web.service\n", second, "/sys/fs/cgroup/system.slice/vmrunner@web.service"},
		{"0::/\n", second, "/sys/fs/cgroup"},
		{"5:cpu:/a\n4:memory:/kubepods/pod1/c\n0::/\n", first, "/sys/fs/cgroup/memory/pod1/c"},
		{"4:memory:/kubepods/pod1\n0::/x\n", first + second, "/sys/fs/cgroup/memory/pod1"},
		{"4:memory:/elsewhere\n", first, ""}, // invisible here
		{"0::/../other\n", second, ""},       // above the namespace
		{"garbage\n\n::", "more - garbage\n\n", ""},
		{"", "", ""},
	} {
		require.Equal(t, test.want, memoryGroup([]byte(test.groups), []byte(test.mounts)), "%q", test.groups)
	}
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	g := MemoryGroup{dir: t.TempDir()}
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(g.dir, name), []byte(text), 0o600))
	}
	_, yes := g.OutOfMemory()
	require.False(t, yes)
	write("memory.events", "low 0\noom 3\noom_kill 0\noom_group_kill 0\n")
	_, yes = g.OutOfMemory()
	require.False(t, yes)
	write("memory.events", "low 0\noom 3\noom_kill 1\n")
	message, yes := g.OutOfMemory()
	require.True(t, yes)
	require.Contains(t, message, g.dir)
	g.ended = 1
	_, yes = g.OutOfMemory()
	require.False(t, yes, "that was before")

	require.NoError(t, os.Remove(filepath.Join(g.dir, "memory.events")))
	write("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n")
	_, yes = g.OutOfMemory()
	require.True(t, yes)
	_, yes = MemoryGroup{}.OutOfMemory()
	require.False(t, yes)
	require.NotPanics(t, func() { _, _ = MemoryGroupOf(os.Getpid()).OutOfMemory() })
}
