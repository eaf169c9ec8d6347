package handover

import (
	"context"
	"fmt"
	"time"

	"vmop/runner/migrate"
)

// defaultSilence is how long a target may be silent while the guest is paused. A cut network and a hung computer
// are silent.
const defaultSilence = 30 * time.Second

// prepareSilences is the multiple of that time that a target has to prepare, because it starts a QEMU and may
// create disks.
const prepareSilences = 4

// limitStage limits the stages that wait for the target while the source owns the guest.
func (s *Source) limitStage(ctx context.Context) {
	s.unlimited()
	var limit time.Duration
	switch s.state.Stage {
	case migrate.Offering:
		limit = prepareSilences * s.cfg.Silence
	case migrate.Switching:
		limit = s.cfg.Silence + s.cfg.Bounds.Downtime
	default:
		return
	}
	ctx, s.unlimited = context.WithCancel(ctx)
	go func() {
		select {
		case <-ctx.Done():
		case <-time.After(limit):
			s.raiseEvent(ctx, happening{
				event: migrate.Cancelled, err: fmt.Errorf("the target has not answered for %s", limit),
			})
		}
	}()
}

// expectAnswer closes the connection if the target does not answer in time whether it has resumed the guest. The
// source then connects and asks again.
func (s *Source) expectAnswer() {
	if c := s.conn; c != nil {
		time.AfterFunc(s.cfg.Silence, func() { _ = c.Close() }) // its reader reports Disconnected
	}
}

// stall detects that the number of sent bytes no longer increases.
type stall struct {
	limit time.Duration
	sent  int64     // bytes
	at    time.Time // when sent last changed
}

// checkStall records the number of sent bytes, and returns an error if it has been the same for too long.
func (s *stall) checkStall(sent int64, now time.Time) error {
	if sent != s.sent || s.at.IsZero() {
		s.sent, s.at = sent, now
	}
	if now.Sub(s.at) >= s.limit {
		return fmt.Errorf("no data of the guest could be sent for %s", s.limit)
	}
	return nil
}
