package runner

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"vmop/runner/config"
	"vmop/runner/machine/drive"
	"vmop/runner/prepare"
	"vmop/runner/prepare/images"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

// progressTime is the interval between log entries about the creation of a disk.
const progressTime = 10 * time.Second

// makeDisks creates the missing disks that have a source. That may take long. In the meantime the status shows
// the progress, and a stop request cancels the work. In every case each disk is either complete or absent.
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
	if err := m.listenForClients(ctx); err != nil {
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
	m.publishStatus(status.Entered{State: vmstatus.StateInitializing})
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
			continue // QEMU reports the error
		}
		err = m.vm.Reach(d.File).CheckURL(ctx, u)
		if err == nil {
			err = drive.CheckServer(ctx, m.vm.Reach(d.File), d.File)
		}
		if fault := prepare.MediumFault(fmt.Sprintf("vm.drives[%d].file", i), err); fault != nil {
			faults = append(faults, *fault)
		}
	}
	return m.vm.Config.Locate(faults)
}

// tellProgress returns a function that publishes the progress in the status, and logs it from time to time.
func (m *run) tellProgress() func(images.Progress) {
	var logged time.Time
	var step images.Step
	return func(p images.Progress) {
		m.publishStatus(status.Entered{
			State: vmstatus.StateInitializing, Reason: vmstatus.ReasonPreparingDisks, Message: p.String(),
		})
		if now := time.Now(); p.Step != step || now.Sub(logged) > progressTime {
			step, logged = p.Step, now
			m.log.Info("preparing a disk", "progress", p.String())
		}
	}
}

// examineFiles returns an error for files that a start can't use, before anything is downloaded. It also records
// the disks that the start uses.
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

// keepOrigins records the disks of a running VM that earlier runners have not recorded, and reports disks that
// were not created from their sources. Errors are only logged, because a full disk must not end the VM.
func (m *run) keepOrigins() {
	err := m.vm.KeepOrigins(true)
	origins, e := prepare.ReadOrigins(m.vm.DataDir)
	if err = errors.Join(err, e); err != nil {
		m.log.Warn("the origin of the disks is not recorded", "err", err)
	}
	m.sizes.Differ(prepare.UnusedSources(m.vm.Spec.Name, m.vm.Spec.Drives, origins))
}
