package snapshot

import (
	"context"
	"fmt"
	"os"
	"time"

	"vmop/runner/prepare"
)

// Stopped makes a snapshot of a VM that doesn't run. The caller has the lock of its runner. tell
// may be nil.
func Stopped(
	ctx context.Context, vm *prepare.VM, name string, now time.Time, tell func(Progress),
) (Description, error) {
	parts, err := Parts(vm)
	if err != nil {
		return Description{}, err
	}
	b, err := begin(vm, name, now)
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
			return Description{}, b.abandon(fmt.Errorf("copy %s into the snapshot %s: %w", p.Name, name, err))
		}
	}
	return b.finish()
}

func (b *build) copyStopped(ctx context.Context, p Part, total *sum) (err error) {
	if p.Kind != Disk { // firmware variables of a VM that was never started aren't there
		p.StoredFormat = p.Format
		return b.copyState(ctx, p)
	}
	p.StoredFormat = p.Format
	p.Stored += "." + p.Format
	if p.Size, err = copyFile(ctx, p.Path, b.path(p.Stored), total.part()); err != nil {
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

// part returns the function that gets the progress of the next copy.
func (s *sum) part() func(int64) {
	before := s.Done
	return func(at int64) {
		s.Done = before + at
		s.Total = max(s.Total, s.Done)
		if s.tell != nil {
			s.tell(s.Progress)
		}
	}
}
