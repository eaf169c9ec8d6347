package runner

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"vmop/outbound"
	"vmop/runner/config"
	"vmop/runner/drive"
	"vmop/runner/images"
	"vmop/runner/prepare"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// progressTime is how often the log says how far the making of a disk has come.
const progressTime = 10 * time.Second

// makeDisks makes the disks that have a source and aren't there. That may take long: meanwhile
// the status tells how far it has come, and a stop request ends it. A disk is there as a whole or
// not at all, however this ends.
//
// See docs/decisions/0106-disks-of-images.md.
func (m *run) makeDisks(ctx context.Context) error {
	missing := images.Missing(m.vm.Spec.Drives)
	if missing == nil {
		return nil
	}
	cache, err := images.NewCache(config.HostEnv())
	if err != nil {
		return err
	}
	if m.opts.ImageCache != "" {
		cache.Folder = m.opts.ImageCache
	}
	if err := m.listen(ctx); err != nil {
		return err
	}
	var faults []vmspec.Fault
	for _, i := range missing {
		d := m.vm.Spec.Drives[i]
		begin := time.Now()
		err := cache.Make(ctx, images.DiskOf(d), m.tellProgress())
		if err == nil {
			m.log.Info("disk made", "file", d.File, "source", images.Shown(d.Source),
				"took", time.Since(begin).Round(time.Millisecond).String())
			continue
		}
		fault, is := images.Fault(i, d, err)
		if !is {
			return fmt.Errorf("%s: %w", fault.Path, err)
		}
		faults = append(faults, fault)
	}
	m.publish(status.Entered{State: vmstatus.StateInitializing})
	return m.vm.Config.Locate(faults)
}

// checkMedia returns an error if QEMU would read a medium from an internal address.
func (m *run) checkMedia(ctx context.Context) error {
	var faults []vmspec.Fault
	for i, d := range m.vm.Spec.Drives {
		if vmspec.SourceKindOf(d.File) != vmspec.SourceURL {
			continue
		}
		u, err := url.Parse(d.File)
		if err != nil {
			continue // QEMU says what is wrong with it
		}
		err = m.vm.Reach(d.File).CheckURL(ctx, u)
		if err == nil {
			err = drive.CheckServer(ctx, m.vm.Reach(d.File), d.File)
		}
		if errors.As(err, new(*outbound.RefusedError)) {
			message := fmt.Sprintf("cannot read the medium: %v; name a server at another address", err)
			faults = append(faults, vmspec.Fault{Path: fmt.Sprintf("vm.drives[%d].file", i), Message: message})
		}
	}
	return m.vm.Config.Locate(faults)
}

// tellProgress returns what puts a progress into the status, and from time to time into the log.
func (m *run) tellProgress() func(images.Progress) {
	var logged time.Time
	var step images.Step
	return func(p images.Progress) {
		m.publish(status.Entered{
			State: vmstatus.StateInitializing, Reason: vmstatus.ReasonPreparingDisks, Message: p.String(),
		})
		if now := time.Now(); p.Step != step || now.Sub(logged) > progressTime {
			step, logged = p.Step, now
			m.log.Info("preparing a disk", "progress", p.String())
		}
	}
}

// examineFiles refuses files that a start can't use, before anything is fetched, and records the disks that it uses.
func (m *run) examineFiles() error {
	faults, err := m.vm.StartFaults()
	if err == nil {
		err = m.vm.Config.Locate(faults)
	}
	if err != nil {
		return err
	}
	return m.vm.KeepOrigins(false)
}

// keepOrigins records the disks of a VM that runs, as far as no earlier runner has recorded them, and reports those
// that were not created from their sources. A full disk must not end the VM.
func (m *run) keepOrigins() {
	err := m.vm.KeepOrigins(true)
	origins, e := prepare.ReadOrigins(m.vm.DataDir)
	if err = errors.Join(err, e); err != nil {
		m.log.Warn("the origin of the disks is not recorded", "err", err)
	}
	m.sizes.Differ(prepare.UnusedSources(m.vm.Spec.Name, m.vm.Spec.Drives, origins))
}
