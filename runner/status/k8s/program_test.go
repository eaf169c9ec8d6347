package k8s_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/logbook"
	"vmop/test/program"
	"vmop/test/tier"
	"vmop/test/wait"
)

// built builds the runner's program.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "vmrunner")
	if err != nil {
		return "", err
	}
	remove = func() error { return os.RemoveAll(dir) }
	path := filepath.Join(dir, "vmrunner")
	return path, program.Build(context.Background(), path, "vmop/cmd/vmrunner")
})

// remove removes the program.
var remove func() error

// A container runs a runner in a place.
type container struct {
	*place
	dir   string // contains the configuration and all other files
	cmd   *exec.Cmd
	log   *logbook.Logbook
	ended chan struct{}
}

// run starts a runner with the VM's lines and further lines of the runner section.
func (p *place) run(runner []string, vm ...string) *container {
	p.t.Helper()
	dir, err := os.MkdirTemp("", "k") // a short path for sockets
	require.NoError(p.t, err)
	c := &container{place: p, dir: dir}
	c.configure(runner, vm...)
	p.t.Cleanup(func() {
		for _, pids := range invariants.Processes(p.t, dir) { // of a failed test
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		require.NoError(p.t, os.RemoveAll(dir))
	})
	c.start("4711")
	return c
}

// start starts "vmrunner init" like a pod with the uid.
func (c *container) start(uid string) {
	p := c.place
	p.t.Helper()
	program, err := built()
	require.NoError(p.t, err)
	c.log, c.ended = &logbook.Logbook{}, make(chan struct{})
	c.cmd = exec.CommandContext(context.WithoutCancel(p.t.Context()), program, "init", "-c", c.path("config.yaml"),
		"--vmtypes", "../../testdata/vmtypes",
		"--account", p.account, "--termination-log", c.path("end"), "--log-format", "text")
	c.cmd.Env = append(append(os.Environ(), p.environment()...), "POD_UID="+uid)
	c.cmd.Stdout, c.cmd.Stderr = c.log, c.log
	cmd, ended, log := c.cmd, c.ended, c.log
	require.NoError(p.t, cmd.Start())
	go func() {
		defer close(ended)
		_ = cmd.Wait() // its state shows the result
	}()
	p.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		if p.t.Failed() {
			p.t.Logf("the runner ended (%s); its output:\n%s", cmd.ProcessState, log)
		}
	})
}

// runner returns the process id of the runner that the first process has started.
func (c *container) runner() int {
	c.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", c.cmd.Process.Pid)) // found in one thread
	require.NoError(c.t, err)
	text := ""
	for _, thread := range threads {
		text += c.read(thread)
	}
	runner, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(c.t, err, "the children of the first process: %q", text)
	return runner
}

func (c *container) path(name string) string { return filepath.Join(c.dir, name) }

func (c *container) configure(runner []string, vm ...string) {
	c.t.Helper()
	text := "\"/Runner\":\n  dataDir: data\n  runtimeDir: run\n"
	for _, line := range runner {
		text += "  " + line + "\n"
	}
	text += "  vm:\n    name: web\n"
	for _, line := range vm {
		text += "    " + line + "\n"
	}
	require.NoError(c.t, os.WriteFile(c.path("config.new"), []byte(text), 0o600))
	require.NoError(c.t, os.Rename(c.path("config.new"), c.path("config.yaml")))
}

// said waits until the runner has logged a text.
func (c *container) said(what string) {
	c.t.Helper()
	late := wait.Over(c.t)
	for !strings.Contains(c.log.String(), what) {
		select {
		case <-c.ended:
			require.Contains(c.t, c.log.String(), what, "the runner has ended")
		case <-late:
			require.FailNow(c.t, "the runner doesn't say it", what)
		case <-time.After(tick):
		}
	}
}

// exit waits for the end and returns the exit code and the termination message.
func (c *container) exit() (int, string) {
	c.t.Helper()
	wait.Receive(c.t, c.ended, "the runner doesn't end")
	text := c.read(c.path("end"))
	require.LessOrEqual(c.t, len(text), 4096)
	var end v1.Outcome
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.DisallowUnknownFields()
	require.NoError(c.t, decoder.Decode(&end), text)
	require.EqualValues(c.t, c.cmd.ProcessState.ExitCode(), end.ExitCode)
	return int(end.ExitCode), end.Cause + " | " + end.Reason + " | " + end.Message
}

// powersOff makes the guest of counting power off once it is up.
func (c *container) powersOff() {
	c.t.Helper()
	client, err := control.Dial(c.t.Context(), filepath.Join(c.dir, "run", control.SocketName))
	require.NoError(c.t, err)
	console, err := client.Console(c.t.Context(), control.Take)
	require.NoError(c.t, err)
	defer console.Close()
	awaitText(c.t, console, "\n0000") // it counts
	_, err = console.Write([]byte("P"))
	require.NoError(c.t, err)
	awaitText(c.t, console, guest.ObedientLeaves)
}

// awaitText reads a console until the guest has written a text.
func awaitText(t *testing.T, console net.Conn, text string) {
	t.Helper()
	require.NoError(t, console.SetReadDeadline(wait.Deadline()))
	var said []byte
	buffer := make([]byte, 4096)
	for !bytes.Contains(said, []byte(text)) {
		n, err := console.Read(buffer)
		require.NoError(t, err, "the guest's output:\n%s", said)
		said = append(said, buffer[:n]...)
	}
}

// counting returns the lines of a vm section that boot a guest which counts and obeys the power button.
func counting(t *testing.T) []string {
	disk := filepath.Join(t.TempDir(), "disk.img")
	require.NoError(t, os.WriteFile(disk, guest.Obedient(true), 0o600))
	return []string{
		"accelerator: tcg", "firmware: bios", "network: []", "maximumRam: 256 MiB", "maximumCpus: 2",
		"powerdownTimeout: 60", "drives: [{file: " + disk + ", bootindex: 1}]",
	}
}

// A runner in a pod reports through a VM's life: the runner is killed, the API server stops and returns, the guest
// shuts down, and the runner waits for a stop request. The test is not parallel because all tests here share the API
// server.
func TestFault31TheRunnerDiesMeanwhile(t *testing.T) {
	tier.Deep(t)
	p, section := newPlace(t), counting(t)
	c := p.run([]string{"generation: 3", "guestShutdownStops: true"}, append(section, "currentCpus: 1")...)
	s := p.eventually("one CPU", func(s v1.VirtualMachineStatus) bool {
		return is(s, "Running", metav1.ConditionTrue) && s.CPUs == 1 && s.RAM == "256Mi"
	})
	require.EqualValues(t, "4711", s.Runner.PodUID)
	began := since(s, "Running")
	require.WithinDuration(t, time.Now(), began, wait.Longest)

	// The runner is killed while the API server is down, and the VM follows its configuration.
	require.NoError(t, p.StopServer(t.Context()))
	runner, err := strconv.Atoi(strings.TrimSpace(p.read(c.path("data/runner.lock"))))
	require.NoError(t, err)
	qemu := invariants.Processes(t, c.dir)[invariants.QEMU]
	require.NoError(t, syscall.Kill(runner, syscall.SIGKILL))
	c.said("adopted")
	c.configure([]string{"generation: 4", "guestShutdownStops: true"}, append(section, "currentCpus: 2")...)
	c.said("cannot be reached")
	require.NoError(t, p.StartServer(t.Context()))
	s = p.eventually("two CPUs", func(s v1.VirtualMachineStatus) bool { return s.CPUs == 2 })
	require.Equal(t, began, since(s, "Running"), "it has run all the time")
	require.Equal(t, qemu, invariants.Processes(t, c.dir)[invariants.QEMU])
	for _, condition := range s.Conditions {
		require.EqualValues(t, 4, condition.ObservedGeneration, condition.Type)
	}

	c.powersOff()
	s = p.eventually("the end", func(s v1.VirtualMachineStatus) bool { return s.Runner.Outcome != nil })
	require.Equal(t, &v1.Outcome{
		Cause: "guest shutdown", Reason: "guest-shutdown",
		Message: "guest shutdown (guest-shutdown)",
	}, s.Runner.Outcome)
	require.True(t, is(s, "Running", metav1.ConditionFalse))
	c.said("waiting for a stop request")
	wait.Until(t, func() bool {
		return slices.Contains(p.events(), "Normal VmStopped guest shutdown (guest-shutdown)")
	})
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	code, end := c.exit()
	require.Zero(t, code)
	require.Equal(t, "guest shutdown | guest-shutdown | guest shutdown (guest-shutdown)", end)
	require.NotContains(t, c.log.String(), "no stop request has come")
	invariants.NothingLeft(t, c.dir)
}

// waitsForAStop runs a VM with a section, shuts its guest down, waits until its runner expects a stop request, and
// returns the runner and the status.
func (p *place) waitsForAStop(section ...string) (*container, v1.VirtualMachineStatus) {
	p.t.Helper()
	c := p.run([]string{"guestShutdownStops: true"}, section...)
	c.said("state=Booting")
	c.powersOff()
	c.said("waiting for a stop request")
	return c, p.eventually("the end", func(s v1.VirtualMachineStatus) bool { return s.Runner.Outcome != nil })
}

// A waiting runner accepts a change of the user's request. If the VM must start again and no manager chooses a place,
// the runner ends and the kubelet restarts it.
func TestAStopRequestIsNotWaitedForWithoutEnd(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p, section := newPlace(t), counting(t)
	c, _ := p.waitsForAStop(section...)
	require.NotContains(t, c.log.String(), "no stop request has come")
	require.NoError(t, syscall.Kill(c.runner(), syscall.SIGKILL))
	c.said("it is not started again")
	c.configure(nil, section...)
	c.said("no stop request has come; exiting")
	code, _ := c.exit()
	require.Zero(t, code)
	c.start("4711") // like the kubelet
	c.said("state=Booting")
}

// If a runner is killed while it waits for a stop request, alone or with its container, it continues to wait after a
// restart in the same pod. In another pod the VM starts.
func TestARunnerThatWaitsIsKilled(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t)
	c, s := p.waitsForAStop(counting(t)...)
	require.NoError(t, syscall.Kill(c.runner(), syscall.SIGKILL))
	wait.Until(t, func() bool {
		return strings.Count(c.log.String(), "waiting for a stop request") == 2
	}, "%s", c.log)
	require.Equal(t, 1, strings.Count(c.log.String(), "state=Starting"))

	runner := c.runner()
	require.NoError(t, errors.Join(c.cmd.Process.Kill(), syscall.Kill(runner, syscall.SIGKILL)))
	<-c.ended
	p.patch("vm-runner", `{"status": {"runner": {"podName": "", "podUID": "", "state": "Booting", "outcome": null}}}`)
	c.start("4711")
	c.said("the guest has ended in this pod; it is not started again")
	c.said("waiting for a stop request")
	again := p.eventually("the end", func(s v1.VirtualMachineStatus) bool { return s.Runner.State == "Stopped" })
	s.Runner.ComparedGeneration = again.Runner.ComparedGeneration // not reported without a machine
	require.Equal(t, s.Runner, again.Runner)
	require.Equal(t, []any{s.UUID, s.VMType, s.RunnerVersion}, []any{again.UUID, again.VMType, again.RunnerVersion})
	require.Equal(t, since(s, "Running"), since(again, "Running"))
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	code, end := c.exit()
	require.Zero(t, code)
	require.Equal(t, "guest shutdown | guest-shutdown | guest shutdown (guest-shutdown)", end)
	require.NotContains(t, c.log.String(), "state=Starting")

	c.start("4712")
	c.said("state=Booting")
}

// If a crash must stop the VM, the runner waits as after a shutdown, even after it was killed, and ends with QEMU's
// result.
func TestACrashStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.run([]string{"crashStops: true"}, counting(t)...)
	c.said("state=Booting")
	require.NoError(t, syscall.Kill(invariants.Processes(t, c.dir)[invariants.QEMU][0], syscall.SIGKILL))
	c.said("waiting for a stop request")
	killed := &v1.Outcome{Cause: "killed", ExitCode: 137, Message: "killed, QEMU: killed by signal 9 (SIGKILL)"}
	is := func(s v1.VirtualMachineStatus) bool { return s.Runner != nil && s.Runner.Outcome != nil }
	require.Equal(t, killed, p.eventually("the end", is).Runner.Outcome)

	runner := c.runner()
	require.NoError(t, errors.Join(c.cmd.Process.Kill(), syscall.Kill(runner, syscall.SIGKILL)))
	<-c.ended
	p.patch("vm-runner", `{"status": {"runner": {"podName": "", "podUID": "", "state": "Booting", "outcome": null}}}`)
	c.start("4711")
	c.said("the guest has ended in this pod; it is not started again")
	require.Equal(t, killed, p.eventually("the end", is).Runner.Outcome)
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	code, _ := c.exit()
	require.Equal(t, 137, code)
	invariants.NothingLeft(t, c.dir)
}

// A VM stopped during its start has not failed.
func TestStoppedWhileItStarts(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.run([]string{"vmType: bare"}, `options: {helper: {program: /bin/sleep, arguments: ["1000"], ready: `+
		filepath.Join(t.TempDir(), "never")+`}}`)
	c.said("state=Starting")
	require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
	code, end := c.exit()
	require.Equal(t, 143, code)
	require.Equal(t, "asked |  | stopped while the VM was being started: signal terminated", end)
	s := p.eventually("the end", func(s v1.VirtualMachineStatus) bool {
		return s.Runner != nil && s.Runner.State == "Stopped"
	})
	require.Equal(t, "VmStopped", s.Runner.Reason)
	require.Contains(t, p.events(), "Normal VmStopped stopped while the VM was being started: signal terminated")
	for _, event := range p.events() {
		require.NotContains(t, event, "Warning")
	}
	invariants.NothingLeft(t, c.dir)
}

// Without a resource the runner doesn't wait.
func TestAPodWithoutAResource(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.Kubectl("delete", "vms", "web")
	c := p.run([]string{"guestShutdownStops: true"}, counting(t)...)
	c.said("state=Booting")
	c.powersOff()
	c.said("no manager is reachable; not waiting for a stop request")
	code, _ := c.exit()
	require.Zero(t, code)
}

// The resource and the termination message contain the reason that prevents a VM from running, and the runner doesn't
// wait.
func TestFailures(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	bare := []string{"vmType: bare"}
	for name, row := range map[string]struct {
		runner, vm []string
		then       func(*container)
		code       int
		end, told  string
	}{
		"faults in the configuration": {
			bare,
			[]string{"maximumCpus: many"},
			nil, 2,
			"start failed | ConfigInvalid | 1 error in the configuration", "vm.maximumCpus",
		},
		"there is no such medium": {
			bare,
			[]string{"drives: [{type: ide-cd, file: /nowhere.iso}]"},
			nil, 2,
			"ConfigInvalid | 1 error in the configuration\nspec.vm.disks[0].cdrom.image: ",
			`spec.vm.disks[0].cdrom.image: "/nowhere.iso" does not exist`,
		},
		"QEMU refuses an argument": {
			bare,
			[]string{`options: {arguments: [["-bogus"]]}`},
			nil, 1,
			"-bogus: invalid option", "invalid option",
		},
		"QEMU is killed": {bare, nil, func(c *container) {
			c.said("state=Booting")
			c.eventually("Running", func(s v1.VirtualMachineStatus) bool {
				return is(s, "Running", metav1.ConditionTrue)
			})
			require.NoError(t, syscall.Kill(invariants.Processes(t, c.dir)[invariants.QEMU][0], syscall.SIGKILL))
		}, 137, "killed |  | killed, QEMU: killed by signal 9 (SIGKILL)", "killed"},
		"a stop is requested": {bare, []string{"powerdownTimeout: 0"}, func(c *container) {
			c.said("state=Booting")
			require.NoError(t, c.cmd.Process.Signal(syscall.SIGTERM))
		}, 0, "forced | host-qmp-quit | forced (host-qmp-quit)", ""},
	} {
		c := p.run(row.runner, row.vm...)
		if row.then != nil {
			row.then(c)
		}
		code, end := c.exit()
		require.Equal(t, row.code, code, name)
		require.Contains(t, end, row.end, name)
		s := p.vm("web").Status
		require.Equal(t, "Stopped", s.Runner.State, name)
		require.Contains(t, s.Runner.Message, row.told, name)
		require.True(t, is(s, "Running", metav1.ConditionFalse), name)
		require.NotContains(t, c.log.String(), "waiting for a stop request", name)
	}
}
