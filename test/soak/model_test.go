package soak_test

import (
	"fmt"
	"slices"
	"strings"

	"vmop/runner/status"
	"vmop/vmstatus"
)

const mib = int64(1) << 20

// wish is the content of a configuration.
type wish struct {
	cpus     int
	ram      int64  // bytes
	medium   string // in the CD drive; "" if empty
	password string
	timeout  int // seconds
	user     string
	bootMenu bool // this and the next need a restart
	rtcBase  string
}

// model is the expected state of the VM.
type model struct {
	wish    wish // the last valid wish
	started wish // the wish at the machine's start
	faulty  bool // the file is invalid
	paused  bool
	cpus    int  // plugged; QEMU 7.2 without KVM can't unplug
	tpmLost bool // swtpm was killed
	agent   bool // QEMU's guest agent runs in the guest
	booted  bool // it has run since the guest booted
	asleep  bool // a runner has started while the guest was paused, and does not know the agent
	boots   int  // of the guest, since its console is read
	secrets int  // minimum number of set passwords
	// generation is the last seen generation of the configuration. A runner must read the generation written after it
	// before the next is written.
	generation, after int64
}

// saw stores counters.
func (m *model) saw(s seen) {
	m.secrets, m.generation = s.status.DisplayPasswordSerial, s.status.Configuration.Generation
}

// start applies the effects of a start.
func (m *model) start() {
	*m = model{wish: m.wish, started: m.wish, cpus: m.wish.cpus, boots: 1, secrets: 1}
}

// reset applies the effects of a reset.
func (m *model) reset() {
	m.boots++
	m.agent, m.booted = false, false
}

// adopted applies the effects of a new runner, which restarts its counters. It can't learn from an agent that no longer
// runs that the guest has booted.
func (m *model) adopted() {
	m.booted, m.asleep = m.agent, m.paused
	m.boots, m.secrets, m.generation, m.after = 0, 0, 0, 0
}

// edited applies the effects of a valid configuration.
func (m *model) edited(w wish) {
	if w != m.wish || m.faulty {
		m.after = m.generation
	}
	if w.password != m.wish.password {
		m.secrets++
	}
	m.wish, m.faulty, m.cpus = w, false, max(m.cpus, w.cpus)
}

// pending returns the paths of changes that need a restart.
func (m *model) pending() []string {
	paths := []string{}
	if m.wish.bootMenu != m.started.bootMenu {
		paths = append(paths, "vm.bootMenu")
	}
	if m.wish.rtcBase != m.started.rtcBase {
		paths = append(paths, "vm.rtcBase")
	}
	return paths
}

// seen is the observed state.
type seen struct {
	status status.Status
	cpus   int    // plugged according to QEMU
	medium string // in the closed tray according to QEMU
	boots  int    // according to the guest
}

// differs returns the differences between the model and the observed state.
func (m *model) differs(s seen) []string {
	var wrong []string
	check := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	agent, booted := m.agent && !m.asleep, m.booted && !m.asleep
	check(s.status.State.Active() && (s.status.State == vmstatus.StateBooted) == booted,
		"the state is %s, want Booted %t", s.status.State, booted)
	check((s.status.Guest != nil) == agent, "the guest agent says %+v, want word of it %t", s.status.Guest, agent)
	check(s.is(vmstatus.ConditionTPMLost) == m.tpmLost, "TPMLost is %t", s.is(vmstatus.ConditionTPMLost))
	check(s.status.WantedUser == m.wish.user, "the wanted user is %q, want %q", s.status.WantedUser, m.wish.user)
	check(s.status.QEMU.RunState == m.runState(), "the run state is %q, want %q", s.status.QEMU.RunState, m.runState())
	check(s.is(vmstatus.ConditionRunning), "not Running")
	check(s.is(vmstatus.ConditionReady) == !m.paused, "Ready is %t", s.is(vmstatus.ConditionReady))
	check(s.status.CPUs == m.cpus, "the status says %d CPUs, want %d", s.status.CPUs, m.cpus)
	check(s.cpus == m.cpus, "QEMU has %d CPUs, want %d", s.cpus, m.cpus)
	check(s.medium == m.wish.medium, "QEMU has %q in its drive, want %q", s.medium, m.wish.medium)
	check(m.paused || s.status.RAM == m.wish.ram, "RAM is %d, want %d", s.status.RAM, m.wish.ram)
	check(s.boots == m.boots, "the guest has booted %d times, want %d", s.boots, m.boots)
	check(s.status.DisplayPasswordSerial >= m.secrets, "%d passwords were set, want %d", s.status.DisplayPasswordSerial,
		m.secrets)
	m.differsInConfiguration(s, check)
	return wrong
}

func (m *model) differsInConfiguration(s seen, check func(bool, string, ...any)) {
	check(s.status.Configuration.Generation > m.after, "the configuration was not read")
	fault := s.status.Configuration.Error
	check((fault != "") == m.faulty, "the fault of the configuration is %q", fault)
	check(fault == "" || strings.Contains(fault, "config.yaml:"), "the fault %q has no place", fault)
	stuck := m.cpus > m.wish.cpus
	check(s.complains("vm.currentCpus") == stuck, "problems are %v", s.status.Problems)
	applied := s.status.Condition(vmstatus.ConditionConfigApplied)
	check((applied.Status == vmstatus.True) == !(m.faulty || stuck), "ConfigApplied is %s: %s", applied.Status,
		applied.Message)
	check(s.is(vmstatus.ConditionRestartRequired) == (len(m.pending()) > 0), "RestartRequired is %t",
		s.is(vmstatus.ConditionRestartRequired))
	paths := []string{}
	for _, c := range s.status.RestartAwaitingChanges {
		paths = append(paths, c.Path)
	}
	slices.Sort(paths)
	check(slices.Equal(paths, m.pending()), "pending are %v, want %v", paths, m.pending())
}

func (m *model) runState() string {
	if m.paused {
		return "paused"
	}
	return "running"
}

func (s seen) is(t vmstatus.ConditionType) bool { return s.status.Condition(t).Status == vmstatus.True }

func (s seen) complains(path string) bool {
	return slices.ContainsFunc(s.status.Problems, func(p status.Problem) bool { return p.Path == path })
}
