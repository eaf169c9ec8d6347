package k8s

import (
	"context"
	"encoding/json"
	"time"

	"vmop/runner/migrate"
	"vmop/runner/status"
	"vmop/vmstatus"
)

// targetManager is the field manager of the target's report during a migration, while another runner has the
// guest.
const targetManager = "vm-runner-target"

// assertTime is the delay before a runner that has received the guest reports again: the last report of the
// source, sent before it released the guest, may arrive late.
const assertTime = 5 * time.Second

// arriving is the part of the resource that the target of a migration applies; nil withdraws it.
type arriving struct {
	PodName string          `json:"podName,omitempty"`
	PodUID  string          `json:"podUID"`
	Stage   string          `json:"stage"`
	Message string          `json:"message,omitempty"`
	Control *status.Control `json:"control,omitempty"`
}

// isArriving reports whether the guest is still with another runner and will move here.
func isArriving(s status.Status) bool {
	return s.Migration != nil && s.Migration.Direction == status.Arriving
}

// isLeaving reports whether another runner reports for the VM, or is about to: the guest has been moved, or is
// being handed over.
func isLeaving(s status.Status) bool {
	if s.Outcome != nil && s.Outcome.Cause == vmstatus.CauseMoved {
		return true
	}
	if s.Migration == nil || s.Migration.Direction != status.Leaving {
		return false
	}
	switch migrate.Stage(s.Migration.Stage) {
	case migrate.Switching, migrate.Asking, migrate.Gone:
		return true
	}
	return false
}

// arrivingOf returns the part of a status that the manager needs from a target.
func arrivingOf(pod *Pod, s status.Status) *arriving {
	a := &arriving{PodName: pod.Name, PodUID: pod.UID, Stage: s.Migration.Stage, Control: s.Control}
	if s.State == vmstatus.StateStopped {
		a.Stage, a.Message = vmstatus.ArrivalFailed, cleanMessage(s.Message, longestText)
	}
	return a
}

// applyTarget applies the report of a migration's target, or withdraws it if a is nil.
func (c *client) applyTarget(ctx context.Context, a *arriving) error {
	status := map[string]any{}
	if a != nil {
		status["arriving"] = a
	}
	body, err := json.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": metadata{c.pod.VM}, "status": status,
	})
	if err != nil {
		return err
	}
	_, err = c.applyAs(ctx, targetManager, body)
	return err
}

// reportArrival reports the progress of a target.
func (f *follower) reportArrival(ctx context.Context) error {
	f.arrived = true
	return f.client.applyTarget(ctx, arrivingOf(f.client.pod, f.newest))
}

// afterArrival withdraws, once, the report from before this runner received the guest.
func (f *follower) afterArrival(ctx context.Context) {
	if !f.arrived {
		return
	}
	f.arrived, f.again = false, time.Now().Add(assertTime)
	if err := f.client.applyTarget(ctx, nil); err != nil {
		f.log.Warn("the status still shows that the guest is expected", "err", err)
	}
}

// nextReport returns the next status to report: a new status, or the same again.
func (f *follower) nextReport(ctx context.Context, sub *status.Subscription) (status.Status, error) {
	if f.again.IsZero() {
		return sub.Next(ctx)
	}
	limited, cancel := context.WithDeadline(ctx, f.again)
	defer cancel()
	s, err := sub.Next(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		s, err, f.again = f.newest, nil, time.Time{}
	}
	return s, err
}
