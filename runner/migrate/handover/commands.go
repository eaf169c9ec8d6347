package handover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"vmop/qmp"
)

// A Machine is a QEMU with its guest.
type Machine interface {
	// Command executes a command and returns its reply, or a *qmp.Error if QEMU refuses.
	Command(ctx context.Context, c qmp.Command) (json.RawMessage, error)
	// Continue lets the guest run, unless it already runs or paused is set, which means that a user has paused
	// it. If the guest certainly does not run, the error is a *qmp.Error or wraps ErrNotResumed.
	Continue(ctx context.Context, paused bool) error
	// Paused reports whether a user has paused the guest.
	Paused() bool
	// Quit ends a QEMU that no longer owns its guest, and returns when it has ended.
	Quit(ctx context.Context) error
	// Happened returns a channel that receives a value when a migration may have made progress, after QEMU's
	// events MIGRATION and MIGRATION_PASS. Some of these events may be lost.
	Happened() <-chan struct{}
	// Words returns the end of QEMU's stderr output, or "" if it is unknown.
	Words() string
	// Done returns a channel that is closed when QEMU has ended.
	Done() <-chan struct{}
}

// ErrNotResumed reports that a guest was not resumed, and never will be.
var ErrNotResumed = errors.New("the guest is not resumed")

type members = map[string]any

// streamName is the name of the memory stream, and of QEMU's end of it.
const streamName = "memory"

// unlimited is a bandwidth, in bytes per second, that exceeds every network.
const unlimited = 1 << 40

// capabilitiesCommand returns the command that sets the migration capabilities of both sides.
//
//   - Without return-path, the source would report "completed" for a guest that the target could not load.
//   - Without late-block-activate, the target would lock the disks before it resumes the guest, and the source
//     could not resume the guest any more.
//   - With events, QEMU reports its progress and is polled less often.
func capabilitiesCommand() qmp.Command {
	var list []members
	for _, name := range []string{
		"pause-before-switchover", "return-path", "late-block-activate", "auto-converge", "events",
	} {
		list = append(list, members{"capability": name, "state": true})
	}
	return qmp.Command{Execute: "migrate-set-capabilities", Arguments: members{"capabilities": list}}
}

// parametersCommand returns the command that sets the migration parameters of the source.
func parametersCommand(b Bounds, downtime time.Duration) qmp.Command {
	bandwidth := b.Bandwidth
	if bandwidth == 0 {
		bandwidth = unlimited
	}
	return qmp.Command{Execute: "migrate-set-parameters", Arguments: members{
		"max-bandwidth": bandwidth, "downtime-limit": millisecondsUp(downtime), "max-cpu-throttle": slowest,
	}}
}

func setDowntime(d time.Duration) qmp.Command {
	return qmp.Command{Execute: "migrate-set-parameters", Arguments: members{"downtime-limit": millisecondsUp(d)}}
}

// millisecondsUp converts a duration to milliseconds, rounded up.
func millisecondsUp(d time.Duration) int64 {
	return int64(math.Ceil(float64(d) / float64(time.Millisecond)))
}

// handStream passes QEMU its end of the stream, and starts the migration command do on it.
func handStream(ctx context.Context, m Machine, end *os.File, do string) error {
	get := qmp.Command{Execute: "getfd", Arguments: members{"fdname": "vmop-" + streamName}, File: end}
	if _, err := m.Command(ctx, get); err != nil {
		return fmt.Errorf("getfd: %w", err)
	}
	return runCommand(ctx, m, qmp.Command{Execute: do, Arguments: members{"uri": "fd:vmop-" + streamName}})
}

// runCommand executes a command and ignores its reply.
func runCommand(ctx context.Context, m Machine, c qmp.Command) error {
	if _, err := m.Command(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c.Execute, err)
	}
	return nil
}

// queryMigration returns QEMU's migration progress.
func queryMigration(ctx context.Context, m Machine) (info Migration, err error) {
	reply, err := m.Command(ctx, qmp.Command{Execute: "query-migrate"})
	if err == nil {
		err = json.Unmarshal(reply, &info)
	}
	if err != nil {
		return info, fmt.Errorf("query-migrate: %w", err)
	}
	return info, nil
}
