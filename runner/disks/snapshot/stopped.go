package snapshot

import (
	"context"
	"fmt"
	"os"
	"time"

	"vmop/runner/prepare"
)

// Stopped creates a snapshot of a stopped VM. The caller holds the lock of its runner. tell may be nil.
func Stopped(
	ctx context.Context, vm *prepare.VM, name string, now time.Time, tell func(Progress),
) (Description, error) {
	parts, err := Parts(vm)
	if err != nil {
		return Description{}, err
	}
	b, err := beginSnapshot(vm, name, now)
	if err != nil {
		return Description{}, err
	}
	for _, d := range vm.Spec.Drives {
		if d.NBD != nil && !d.ReadOnly {
			b.Omitted = append(b.Omitted, d.Serial)
		}
	}
	total := sum{tell: tell}
	for _, p := range parts {
		if info, err := os.Stat(p.Path); err == nil && p.Kind == Disk {
			total.Total += info.Size()
		}
	}
	for _, p := range parts {
		if err := b.copyStopped(ctx, p, &total); err != nil {
			return Description{}, b.abandonBuild(fmt.Errorf("copy %s into the snapshot %s: %w", p.Name, name, err))
		}
	}
	return b.finishBuild()
}

func (b *build) copyStopped(ctx context.Context, p Part, total *sum) (err error) {
	if p.Kind != Disk { // a VM that was never started has no firmware variables
		p.StoredFormat = p.Format
		return b.copyState(ctx, p)
	}
	p.StoredFormat = p.Format
	p.Stored += "." + p.Format
	if p.Size, err = copyFile(ctx, p.Path, b.storedPath(p.Stored), total.partProgress()); err != nil {
		return err
	}
	b.Parts = append(b.Parts, p)
	return nil
}

// sum adds up the progress of several copies.
type sum struct {
	Progress
	tell func(Progress)
}

// partProgress returns the function that receives the progress of the next copy.
func (s *sum) partProgress() func(int64) {
	before := s.Done
	return func(at int64) {
		s.Done = before + at
		s.Total = max(s.Total, s.Done)
		if s.tell != nil {
			s.tell(s.Progress)
		}
	}
}
