package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/test/tier"
	"vmop/test/wait"
)

// hosts are two network namespaces with a router between them. They belong to this thread.
type hosts struct {
	t                    *testing.T
	source, router, goal *os.File
}

// newHosts creates the hosts. The source's address is 192.0.2.1, the target's 198.51.100.1. Use the goroutine only for
// this test: its thread and the namespaces end with it.
func newHosts(t *testing.T) *hosts {
	t.Helper()
	runtime.LockOSThread()
	h := &hosts{t: t, source: newNamespace(t), goal: newNamespace(t), router: newNamespace(t)}
	for _, end := range []struct {
		of              *os.File
		address, router string
	}{{h.source, "192.0.2.1", "192.0.2.254"}, {h.goal, "198.51.100.1", "198.51.100.254"}} {
		h.in(h.router)
		name := "to" + end.address[:3]
		ip(h.t, "link add %s type veth peer name eth0 netns /proc/%d/fd/%d", name, os.Getpid(), end.of.Fd())
		ip(h.t, "address add %s/24 dev %s", end.router, name)
		ip(h.t, "link set %s up", name)
		h.in(end.of)
		ip(h.t, "address add %s/24 dev eth0", end.address)
		ip(h.t, "link set eth0 up")
		ip(h.t, "link set lo up")
		ip(h.t, "route add default via %s", end.router)
	}
	h.pass(true)
	return h
}

// newNamespace creates a namespace that the thread enters.
func newNamespace(t *testing.T) *os.File {
	t.Helper()
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET), "this test needs root")
	f, err := os.Open("/proc/thread-self/ns/net")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// in makes the thread start processes in a namespace.
func (h *hosts) in(namespace *os.File) {
	h.t.Helper()
	require.NoError(h.t, unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET))
}

// ip runs the program in the thread's namespace.
func ip(t *testing.T, format string, args ...any) {
	t.Helper()
	words := fmt.Sprintf(format, args...)
	out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(words)...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", words, out)
}

// pass sets whether the router forwards packets. If not, it drops them silently, and all links stay up.
func (h *hosts) pass(on bool) {
	h.t.Helper()
	h.in(h.router)
	value := map[bool]string{true: "1", false: "0"}[on]
	require.NoError(h.t, os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte(value), 0), "this is of the namespace")
}

// beginBetween is begin with a runner on each of the hosts.
func (h *hosts) beginBetween() *journey {
	h.t.Helper()
	j := newJourney(h.t, "standard", counterSection(h.t), "--listen", "198.51.100.1:0")
	h.in(h.source)
	j.sending = booted(h.t, j.fromDir, "--log-level", "debug")
	h.in(h.goal)
	j.expects()
	return j
}

// cutMoment is the moment at which the network is cut: when a side has logged a text.
type cutMoment struct {
	killMoment
	keeps bool // the guest can't be at the target afterwards
	args  []string
}

func cutMoments() []cutMoment {
	slowly := []string{"--bandwidth", "100 KiB"}
	return []cutMoment{
		{killMoment{"target", `"heard Offer"`}, true, slowly},
		{killMoment{"target", `event=Listens`}, true, slowly},
		{killMoment{"source", `event=AtSwitch`}, false, nil},
		{killMoment{"source", `send=Go`}, false, nil}, // usually it has been sent
	}
}

// oneRuns waits for a limited time until the guest runs on one side, and reports where. It requires that the guest
// never runs on both sides.
func (j *journey) oneRuns(within time.Duration) (here, there bool) {
	j.t.Helper()
	for end := time.Now().Add(within); !here && !there && time.Now().Before(end); time.Sleep(2 * tick) {
		here, there = runs(j.t, j.fromDir), runs(j.t, j.toDir)
		require.False(j.t, here && there, "two guests run")
	}
	return here, there
}

// A router between two hosts stops forwarding packets. It resumes when the source has resumed its guest, or has waited
// for a while with the paused guest. The guest runs on one host, never on both, and can still be migrated.
func TestTheNetworkIsCutWhileAGuestMigrates(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for _, c := range cutMoments() {
		t.Run(c.side+" "+strings.Trim(c.at, `"`), func(t *testing.T) {
			t.Parallel()
			h := newHosts(t)
			j := h.beginBetween()
			told := make(chan string, 1)
			go func() { out, _ := j.migrate(c.args...); told <- out }()
			side := j.sending
			if c.side == "target" {
				side = j.receiving
			}
			side.await(c.at)
			h.pass(false)
			here, there := j.oneRuns(map[bool]time.Duration{true: wait.Longest, false: time.Minute}[c.keeps])
			if c.keeps {
				require.True(t, here, "the source has its guest")
			}
			t.Logf("cut, the guest runs at the source: %t, at the target: %t", here, there)
			h.pass(true)
			here, there = j.oneRuns(wait.Longest)
			require.True(t, here != there, "one guest runs")
			t.Logf("the guest runs at the source: %t, at the target: %t; %s", here, there, <-told)
			if there {
				require.Zero(t, j.sending.exit())
				require.Contains(t, j.sending.out.String(), "outcome=moved")
				return
			}
			require.Equal(t, 1, j.receiving.exit())
			h.in(h.goal)
			j.expects()
			out, err := j.migrate()
			require.NoError(t, err, out)
			require.True(t, runs(t, j.toDir))
		})
	}
}
