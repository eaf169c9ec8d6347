package agents

import (
	"context"

	"vmop/runner/guest"
)

// Disks asks the guest agent for the guest's disks and mounted file systems. Unlike the other methods it waits for the
// answers, so that other goroutines than the driver's call it. An agent without one of the commands leaves its result
// empty.
func (a *Agents) Disks(ctx context.Context) (disks []guest.Disk, mounted []guest.FileSystem, err error) {
	var agent *guest.Agent
	a.cfg.Do(func() { agent = a.liveAgent() })
	if agent == nil {
		return nil, nil, errNoAgent
	}
	if disks, err = agent.Disks(ctx); err != nil && !isRefusal(err) {
		return nil, nil, err
	}
	if mounted, err = agent.FileSystems(ctx); err != nil && !isRefusal(err) {
		return nil, nil, err
	}
	return disks, mounted, nil
}
