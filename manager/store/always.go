package store

import "context"

// Always is a part of a manager's program that runs both in the leader and in standby managers, such as a watch.
// It is a manager.LeaderElectionRunnable.
type Always func(ctx context.Context) error

// Start implements manager.Runnable.
func (run Always) Start(ctx context.Context) error { return run(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (Always) NeedLeaderElection() bool { return false }
