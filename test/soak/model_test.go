package soak_test

import (
	"fmt"
	"slices"
	"strings"

	"vmop/runner/status"
	"vmop/vmstatus"
)

const mib = int64(1) << 20

// wish is what a configuration says.
type wish struct {
	cpus     int
	ram      int64  // bytes
	medium   string // of the CD drive; "" is none
	password string
	timeout  int // seconds
	user     string
	bootMenu bool // these two need a restart
	rtcBase  string
}

// model is what must be true of the VM.
type model struct {
	wish    wish // the last one without fault
	started wish // what the machine was started with
	faulty  bool // the file has a fault
	paused  bool
	cpus    int  // plugged; QEMU 7.2 without KVM can't unplug
	tpmLost bool // swtpm was killed
	agent   bool // QEMU's guest agent runs in the guest
	booted  bool // it has run since the guest booted
	asleep  bool // a runner has come while the guest was paused: it knows of no agent
	boots   int  // of the guest, since its console is read
	secrets int  // at least so many passwords were set
	// generation of the configuration that was seen last; the one that was
	// written after it must be read before the next one is written.
	generation, after int64
}

// saw takes note of what counts up.
func (m *model) saw(s seen) {
	m.secrets, m.generation = s.status.DisplayPasswordSerial, s.status.Configuration.Generation
}

// start is what a start of the machine changes.
func (m *model) start() {
	*m = model{wish: m.wish, started: m.wish, cpus: m.wish.cpus, boots: 1, secrets: 1}
}

// reset is what a reset changes.
func (m *model) reset() {
	m.boots++
	m.agent, m.booted = false, false
}

// adopted is what another runner changes: it counts anew.
// An agent that is not there any more can't tell it that the guest has booted.
func (m *model) adopted() {
	m.booted, m.asleep = m.agent, m.paused
	m.boots, m.secrets, m.generation, m.after = 0, 0, 0, 0
}

// edited is what a configuration without fault changes.
func (m *model) edited(w wish) {
	if w != m.wish || m.faulty {
		m.after = m.generation
	}
	if w.password != m.wish.password {
		m.secrets++
	}
	m.wish, m.faulty, m.cpus = w, false, max(m.cpus, w.cpus)
}

// pending are the paths of what awaits a restart.
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

// seen is what is found.
type seen struct {
	status status.Status
	cpus   int    // plugged, as QEMU says
	medium string // in the closed tray, as QEMU says
	boots  int    // as the guest says
}

// differs says what of the VM is not as it must be.
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
