package handover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"vmop/qmp"
	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
)

// copyGuest starts to copy the guest, and reports the progress as events. It copies the disks while the guest runs.
// When all disks are in sync, it copies the memory.
func (s *Source) copyGuest(ctx context.Context) {
	lasting, end := context.WithCancel(ctx)
	disks, cut := context.WithCancel(lasting)
	working, stop := context.WithCancel(lasting)
	ended := make(chan struct{})
	s.copying, s.cut, s.halt = end, cut, func() { stop(); <-ended }
	go func() {
		defer close(ended)
		c := &convergence{bounds: s.cfg.Bounds}
		err := s.copyDisks(working, disks)
		if err == nil {
			err = s.sendMemory(working, lasting, c)
		}
		if err != nil {
			s.reportSendError(working, err)
			return
		}
		s.followQEMU(working, c)
	}()
}

// reportSendError reports that QEMU cannot send the guest. The target may know the reason and send it within a moment.
// During that moment the guest runs, or stays paused if its memory was being sent. The first reason counts.
func (s *Source) reportSendError(ctx context.Context, err error) {
	select {
	case <-ctx.Done():
	case <-time.After(wordTime):
		s.raiseEvent(ctx, happening{event: migrate.Failed, err: err})
	}
}

// sendMemory starts the migration of the guest's memory. The stream lasts as long as lasting.
func (s *Source) sendMemory(ctx, lasting context.Context, c *convergence) error {
	limited, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	stream, err := link.Dial(limited, s.cfg.Keys, streamName)
	if err != nil {
		return err
	}
	ours, theirs, err := link.Pair()
	if err != nil {
		return errors.Join(err, stream.Close())
	}
	defer theirs.Close() // QEMU has its own descriptor
	go func() {
		if err := link.Carry(lasting, stream, ours); err != nil && lasting.Err() == nil {
			s.log.Debug("migration: the stream has ended", "err", err)
		}
	}()
	list := []qmp.Command{capabilitiesCommand(), parametersCommand(s.cfg.Bounds, c.firstDowntime())}
	if s.cfg.Stop {
		list = append(list, qmp.Command{Execute: "stop"})
	}
	for _, c := range list {
		if err := runCommand(limited, s.machine, c); err != nil {
			return err
		}
	}
	s.directViewers(limited)
	return handStream(limited, s.machine, theirs, "migrate")
}

// followQEMU reports QEMU's progress as events until QEMU has sent everything or has given up.
func (s *Source) followQEMU(ctx context.Context, c *convergence) {
	switching, stalled := false, stall{limit: 2 * s.cfg.Silence}
	for {
		info, err := queryMigration(ctx, s.machine)
		if err != nil {
			s.raiseEvent(ctx, happening{event: migrate.Failed, err: err})
			return
		}
		s.far.Transferred, s.far.Remaining, s.far.Total = info.RAM.Transferred, info.RAM.Remaining, info.RAM.Total
		s.far.Throttle = info.Throttle
		s.publishProgress(s.far)
		switch info.Status {
		case "pre-switchover":
			if !switching {
				s.raiseEvent(ctx, happening{event: migrate.AtSwitch})
			}
			switching = true
		case "completed":
			s.raiseEvent(ctx, happening{event: migrate.Copied})
			return
		case "failed", "cancelled":
			s.reportSendError(ctx, migrationError(info))
			return
		case "active":
			err := stalled.checkStall(info.RAM.Transferred, time.Now())
			if err == nil {
				err = s.fallenBehind(ctx)
			}
			if err != nil {
				s.raiseEvent(ctx, happening{event: migrate.Failed, err: err})
				return
			}
		}
		downtime, giveUp := c.nextDowntime(info)
		if giveUp != nil {
			s.raiseEvent(ctx, happening{event: migrate.Cancelled, err: giveUp})
			return
		}
		if downtime != 0 {
			if err := runCommand(ctx, s.machine, setDowntime(downtime)); err != nil {
				s.log.Warn("migration: the guest's pause stays as short as it is", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-s.machine.Happened():
		case <-time.After(pollTime):
		}
	}
}

func migrationError(info Migration) error {
	if info.Error == "" {
		return fmt.Errorf("QEMU has ended the migration (%s)", info.Status)
	}
	return fmt.Errorf("QEMU cannot send the guest: %s", info.Error)
}

// stopCopying returns when QEMU has stopped copying. Only then is it known whether QEMU has resumed the guest.
func (s *Source) stopCopying(ctx context.Context) {
	defer s.copying()
	s.halt()
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	defer time.AfterFunc(cutTime, s.cut).Stop() // QEMU's graceful cancel would wait for a silent target
	err := s.dropCopies(ctx)
	s.cut()
	if err != nil {
		s.log.Warn("migration: the copies of disks have not ended", "err", err)
	}
	if err := s.endMigration(ctx); err != nil {
		s.log.Warn("migration: it is not known whether QEMU has ended the copy", "err", err)
	}
}

// endMigration ends QEMU's migration of the memory. After the switch it only closes the stream; see
// docs/decisions/0168-the-switch-is-not-cancelled.md.
func (s *Source) endMigration(ctx context.Context) error {
	if s.switched {
		s.copying()
	}
	for asked := false; ; {
		info, err := queryMigration(ctx, s.machine)
		switch {
		case err != nil:
			return err
		case slices.Contains([]string{"", "none", "completed", "failed", "cancelled"}, info.Status):
			return nil
		case !asked && !s.switched && info.Status != "device":
			if err := runCommand(ctx, s.machine, qmp.Command{Execute: "migrate_cancel"}); err != nil {
				return err
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(endPause):
		}
	}
}
