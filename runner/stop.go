package runner

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"vmop/process"
	"vmop/qmp"
	"vmop/runner/config"
	"vmop/runner/guest"
)

// Times of the steps that end a VM. The guest has powerdownTimeout; what
// follows is for a QEMU that obeys, and for one that doesn't.
const (
	quitTime  = 10 * time.Second // to flush its caches and end
	termTime  = 5 * time.Second
	agentTime = 2 * time.Second // for the agent to answer that it is there
	nudgeTime = 5 * time.Second // for a QEMU that has announced its end
	// pressAgain: a guest that was still in its firmware has missed the power
	// button.
	pressAgain = 20 * time.Second
)

// A stopStep is one way to end the VM, and the time it has to work.
type stopStep struct {
	how  method
	time time.Duration
}

// method is a way to end a VM, from kind to rude.
type method string

const (
	byAgent   method = "guest agent"
	byACPI    method = "ACPI power button"
	byQuit    method = "QMP quit"
	bySIGTERM method = "SIGTERM"
	bySIGKILL method = "SIGKILL"
)

// stopSteps shares the guest's time between the ways of asking it: an agent
// that accepts and then does nothing must leave time for the power button.
func stopSteps(timeout time.Duration, agent bool) []stopStep {
	var steps []stopStep
	if timeout > 0 {
		if agent {
			steps = append(steps, stopStep{byAgent, timeout / 2})
			timeout -= timeout / 2
		}
		steps = append(steps, stopStep{byACPI, timeout})
	}
	return append(steps, stopStep{byQuit, quitTime}, stopStep{bySIGTERM, termTime}, stopStep{bySIGKILL, termTime})
}

// forces says that a method leaves the guest no choice.
func (m method) forces() bool { return m == byQuit || m == bySIGTERM || m == bySIGKILL }

// stop ends the VM, which was told to at begin, and returns whether it had to
// be forced.
func (m *machine) stop(ctx context.Context, begin time.Time) (forced bool) {
	if given, wanted := m.guestTime(), time.Duration(m.powerdown.Load()); given < wanted && !m.atOnce.Load() {
		m.log.Warn("the guest has less time than powerdownTimeout: the pod would be killed before", "time", given.String(), "powerdownTimeout", wanted.String(), "gracePeriod", m.grace.String())
	}
	looking := time.Now()
	agent := m.connectAgent(ctx)
	if agent != nil {
		defer agent.Close()
	}
	begin = begin.Add(time.Since(looking)) // the guest's time is the guest's
	for _, step := range stopSteps(m.guestTime(), agent != nil) {
		switch step.how {
		case byAgent: // an earlier runner may have begun
			step.time -= time.Since(begin)
		case byACPI: // an agent that refuses has not used up its share
			step.time = time.Until(begin.Add(m.guestTime()))
		}
		if step.time <= 0 {
			continue
		}
		forced = forced || step.how.forces()
		m.log.Info("stopping", "method", string(step.how), "timeout", step.time.Round(time.Second).String())
		late := time.Now().Add(step.time)
		if err := m.try(ctx, step, agent); err != nil {
			m.log.Warn("stopping", "method", string(step.how), "err", err)
			if step.how != byACPI || refused(err) {
				continue
			} // a QEMU that stalls may still press the button: the guest keeps its time
		}
		if m.ended(step, begin, late) {
			return forced
		}
	}
	<-m.qemu.Done() // killed: the kernel ends it as soon as it can
	return forced
}

// connectAgent returns the guest agent, if the guest runs one. Nobody else
// speaks with it from then on.
func (m *machine) connectAgent(ctx context.Context) *guest.Agent {
	path := m.vm.Plan.Socket(guestAgentRole)
	if path == "" || m.guestTime() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	agent := m.agent.take()
	if agent == nil {
		open, err := m.portIsOpen(ctx, path)
		if err == nil && open {
			agent, err = guest.Connect(ctx, path)
		}
		if err != nil {
			m.log.Warn("asking for the guest agent", "err", err)
		}
		if agent == nil {
			return nil
		}
	}
	if err := agent.Synchronise(ctx); err != nil {
		m.log.Warn("the guest agent does not answer", "err", err)
		_ = agent.Close() // it would be in the way of nobody
		return nil
	}
	return agent
}

// try takes one step; it does not wait for the VM's end.
func (m *machine) try(ctx context.Context, step stopStep, agent *guest.Agent) error {
	ctx, cancel := context.WithTimeout(ctx, min(step.time, quitTime))
	defer cancel()
	switch step.how {
	case byAgent:
		return agent.Shutdown(ctx, guest.PowerDown)
	case byACPI:
		return m.command(ctx, "system_powerdown")
	case byQuit:
		return m.command(ctx, "quit")
	case bySIGTERM:
		return m.qemu.Signal(syscall.SIGTERM)
	default:
		return m.qemu.Signal(syscall.SIGKILL)
	}
}

func (m *machine) command(ctx context.Context, name string) error {
	_, err := m.monitor.Run(ctx, qmp.Command{Execute: name})
	return err
}

// powerdownTimeout is what the guest has for shutting down.
func (vm *VM) powerdownTimeout() time.Duration {
	return time.Duration(*vm.Spec.PowerdownTimeout) * time.Second
}

// end ends the machine, at once or by asking the guest. The next runner knows it,
// too, if this one is killed.
func (m *machine) end(cause error, atOnce bool) {
	m.noteStop(cause.Error(), atOnce)
	if atOnce && !m.atOnce.Swap(true) {
		m.timeChanged()
	}
	m.cancel(cause)
}

// guestTime is what the guest has for shutting down, as things stand.
func (m *machine) guestTime() time.Duration {
	if m.atOnce.Load() {
		return 0
	}
	timeout := time.Duration(m.powerdown.Load())
	if m.grace > 0 {
		timeout = min(timeout, max(m.grace-config.ForcedStop, 0))
	}
	return timeout
}

// setPowerdownTimeout takes effect at once, also while the guest is being asked.
func (m *machine) setPowerdownTimeout(timeout time.Duration) {
	if m.powerdown.Swap(int64(timeout)) != int64(timeout) {
		m.timeChanged()
	}
}

// timeChanged has the guest's time looked at again.
func (m *machine) timeChanged() {
	select {
	case m.rearm <- struct{}{}:
	default: // it will be seen
	}
}

// ended waits for the VM's end until it is too late for the step; the guest's
// steps began at begin, and follow a changed powerdownTimeout. The power button
// is pressed again from time to time.
func (m *machine) ended(step stopStep, begin, late time.Time) bool {
	timer := time.NewTimer(time.Until(late))
	defer timer.Stop()
	again := time.NewTicker(pressAgain)
	defer again.Stop()
	for {
		select {
		case <-m.qemu.Done():
			return true
		case <-timer.C:
			return false
		case <-m.rearm:
			share := m.guestTime()
			if step.how == byAgent {
				share /= 2
			}
			if !step.how.forces() {
				timer.Reset(time.Until(begin.Add(share)))
			}
		case <-again.C:
			if session := m.monitor.current(); step.how == byACPI && session != nil {
				session.Start(qmp.Command{Execute: "system_powerdown"})
			}
		}
	}
}

// endProcess ends a process that is left when everything else has been done.
// Its time is its own: it is called when the runner's is over.
func endProcess(ctx context.Context, p *process.Process) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*termTime)
	defer cancel()
	if err := p.Terminate(ctx, termTime); err != nil {
		return fmt.Errorf("end %s: %w", p.Name(), err)
	}
	return nil
}
