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
	// Command says a command and returns the reply: a *qmp.Error if QEMU refuses.
	Command(ctx context.Context, c qmp.Command) (json.RawMessage, error)
	// Continue lets the guest run, unless it does, or paused says that a user has paused it. If it certainly doesn't
	// run, the error is a *qmp.Error, or wraps ErrNotResumed.
	Continue(ctx context.Context, paused bool) error
	// Paused reports whether a user has paused the guest.
	Paused() bool
	// Quit ends QEMU, with a guest that isn't its own any more, and returns when it has ended.
	Quit(ctx context.Context) error
	// Happened gets something when QEMU may be further with a migration, by its events MIGRATION and MIGRATION_PASS, of
	// which some may be lost.
	Happened() <-chan struct{}
	// Words returns the end of what QEMU has written to its stderr; "" if that isn't known.
	Words() string
	// Done is closed when QEMU has ended.
	Done() <-chan struct{}
}

// ErrNotResumed says that a guest was not resumed, and will not be.
var ErrNotResumed = errors.New("the guest is not resumed")

type members = map[string]any

// streamName is that of QEMU's end of the stream, and of the stream itself.
const streamName = "memory"

// unlimited is a bandwidth, in bytes per second, that no network has.
const unlimited = 1 << 40

// capabilities are what both sides need. Without return-path the source says "completed" for a guest that the
// target couldn't load; without late-block-activate the target locks the disks before it is to resume the guest, and
// the source couldn't resume it any more; with events QEMU says how far it is, and is asked the less.
func capabilities() qmp.Command {
	var list []members
	for _, name := range []string{
		"pause-before-switchover", "return-path", "late-block-activate", "auto-converge", "events",
	} {
		list = append(list, members{"capability": name, "state": true})
	}
	return qmp.Command{Execute: "migrate-set-capabilities", Arguments: members{"capabilities": list}}
}

// parameters are those of the source.
func parameters(b Bounds, downtime time.Duration) qmp.Command {
	bandwidth := b.Bandwidth
	if bandwidth == 0 {
		bandwidth = unlimited
	}
	return qmp.Command{Execute: "migrate-set-parameters", Arguments: members{
		"max-bandwidth": bandwidth, "downtime-limit": milliseconds(downtime), "max-cpu-throttle": slowest,
	}}
}

func setDowntime(d time.Duration) qmp.Command {
	return qmp.Command{Execute: "migrate-set-parameters", Arguments: members{"downtime-limit": milliseconds(d)}}
}

// milliseconds rounds up.
func milliseconds(d time.Duration) int64 {
	return int64(math.Ceil(float64(d) / float64(time.Millisecond)))
}

// hand gives QEMU its end of the stream, and has it migrate by that.
func hand(ctx context.Context, m Machine, end *os.File, do string) error {
	get := qmp.Command{Execute: "getfd", Arguments: members{"fdname": "vmop-" + streamName}, File: end}
	if _, err := m.Command(ctx, get); err != nil {
		return fmt.Errorf("getfd: %w", err)
	}
	return command(ctx, m, qmp.Command{Execute: do, Arguments: members{"uri": "fd:vmop-" + streamName}})
}

// command says a command whose reply is of no interest.
func command(ctx context.Context, m Machine, c qmp.Command) error {
	if _, err := m.Command(ctx, c); err != nil {
		return fmt.Errorf("%s: %w", c.Execute, err)
	}
	return nil
}

// query returns how far QEMU is.
func query(ctx context.Context, m Machine) (info Migration, err error) {
	reply, err := m.Command(ctx, qmp.Command{Execute: "query-migrate"})
	if err == nil {
		err = json.Unmarshal(reply, &info)
	}
	if err != nil {
		return info, fmt.Errorf("query-migrate: %w", err)
	}
	return info, nil
}
