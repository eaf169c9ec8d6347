package handover

import (
	"context"
	"fmt"
	"time"

	"vmop/runner/migrate"
)

// DefaultSilence is how long a target may say nothing while the guest is paused. A network that is cut, and a computer
// that has hung, say nothing.
const DefaultSilence = 30 * time.Second

// prepareSilences are how often that time a target has to prepare: it starts a QEMU, and may make disks.
const prepareSilences = 4

// limit bounds the time of a stage in which the guest is the source's, and waits for the target.
func (s *Source) limit(ctx context.Context) {
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
			s.happens(ctx, happening{
				event: migrate.Cancelled, err: fmt.Errorf("the target has not answered for %s", limit),
			})
		}
	}()
}

// expectAnswer gives a connection up on which the target doesn't answer whether it has resumed the guest. It is asked
// again by another one.
func (s *Source) expectAnswer() {
	if c := s.conn; c != nil {
		time.AfterFunc(s.cfg.Silence, func() { _ = c.Close() }) // its reader brings Disconnected
	}
}

// stall notices that nothing is sent any more.
type stall struct {
	limit time.Duration
	sent  int64     // bytes
	at    time.Time // when that was so first
}

// next takes in how much was sent, and returns an error if it has been the same for too long.
func (s *stall) next(sent int64, now time.Time) error {
	if sent != s.sent || s.at.IsZero() {
		s.sent, s.at = sent, now
	}
	if now.Sub(s.at) >= s.limit {
		return fmt.Errorf("nothing of the guest could be sent for %s", s.limit)
	}
	return nil
}
