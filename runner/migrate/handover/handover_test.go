package handover

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate"
	"vmop/runner/migrate/link"
	"vmop/test/tier"
	"vmop/test/wait"
)

// trial is a migration between two machines and their runners.
type trial struct {
	t              testing.TB
	from, to       *machine
	options        []string // of the target's QEMU
	disk, toDisk   string
	images         []Image // targets of the disk copy
	fromDir, toDir string  // the data directories
	bounds         Bounds
	silence        time.Duration
	refusal        error // the target's hardware comparison
	takeFault      error
	check          func(context.Context) error // the source's guest check
	log            *slog.Logger
	target         link.Keys
	keys           link.Keys
	listener       *link.Listener
	source         *Source
	at             func(side string, p Progress) // called for each Progress
	closed         atomic.Bool                   // the listener
	mu             sync.Mutex
}

// run is one side until its end.
type run struct {
	cancel context.CancelFunc
	ended  chan error
}

func (r run) kill() { r.cancel(); <-r.ended }

func newTrial(t testing.TB, busy bool) *trial {
	t.Helper()
	return newTrialOf(t, disk(t, busy))
}

// newBare returns a trial for behavior that needs no guest.
func newBare(t testing.TB) *trial {
	t.Helper()
	return newTrialOf(t, blankDisk(t))
}

// newTrialOf returns a trial of a guest with a disk shared by both sides.
func newTrialOf(t testing.TB, disk string) *trial {
	t.Helper()
	r := &trial{
		t: t, fromDir: t.TempDir(), toDir: t.TempDir(), disk: disk, bounds: DefaultBounds(),
		options: []string{"-incoming", "defer"}, at: func(string, Progress) {},
		log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	r.toDisk = r.disk
	r.boot()
	var err error
	r.target, r.keys, err = link.NewKeys("127.0.0.1:0", time.Now())
	require.NoError(t, err)
	r.listen()
	r.keys.Address, r.target.Address = r.listener.Address(), r.listener.Address()
	t.Cleanup(func() { _ = r.listener.Close() })
	return r
}

// boot starts the source's machine, replacing an earlier machine.
func (r *trial) boot(options ...string) {
	r.t.Helper()
	if r.from != nil {
		r.from.kill()
	}
	r.from = start(r.t, r.disk, options...)
	require.Empty(r.t, r.from.fault(r.t.Context(), "cont"))
	r.from.moves()
}

func (r *trial) listen() {
	r.t.Helper()
	wait.Until(r.t, func() bool {
		l, err := link.Listen(r.t.Context(), r.target, r.log)
		r.listener = l
		return err == nil
	})
}

func begin(t testing.TB, do func(ctx context.Context) error) run {
	ctx, cancel := context.WithCancel(t.Context())
	started := run{cancel, make(chan error, 1)}
	go func() {
		err := do(ctx)
		started.ended <- err
		close(started.ended)
	}()
	t.Cleanup(started.kill)
	return started
}

// asSource runs the source from its record.
func (r *trial) asSource() run {
	note, err := Read(r.fromDir)
	require.NoError(r.t, err)
	r.source = NewSource(SourceConfig{
		Silence: r.silence, Machine: r.from, DataDir: r.fromDir, Keys: r.keys, Offer: "an offer", Bounds: r.bounds,
		Log: r.log.With("side", "source"), Check: r.check,
		Disks: []Disk{{ID: "a", Node: "r"}}, Socket: filepath.Join(r.fromDir, "d"),
		Tell: func(p Progress) { r.at("source", p) },
	})
	return begin(r.t, func(ctx context.Context) error { return r.source.Run(ctx, note.Record) })
}

// asTarget runs the target from its record.
func (r *trial) asTarget() (*Target, run) {
	note, err := Read(r.toDir)
	require.NoError(r.t, err)
	from := note.Record
	if from == migrate.Moved {
		from = migrate.NoRecord
	}
	if r.closed.CompareAndSwap(true, false) {
		r.listen()
	}
	t := NewTarget(TargetConfig{
		DataDir: r.toDir, Keys: r.target, Listener: r.listener, Left: note.Away(), Log: r.log.With("side", "target"),
		Patience: 2 * time.Second,
		Tell:     func(p Progress) { r.at("target", p) },
		Compare: func(_ context.Context, offer json.RawMessage) ([]Image, error) {
			require.Equal(r.t, `"an offer"`, string(offer))
			return r.images, r.refusal
		},
		Images: note.Images, Whole: note.Whole, Socket: filepath.Join(r.toDir, "d"),
		Start: func(context.Context) (Machine, error) {
			r.set(start(r.t, r.toDisk, r.options...))
			return r.to, nil
		},
		Take: func() error { return r.takeFault },
	})
	return t, begin(r.t, func(ctx context.Context) error {
		var left Machine
		if m := r.there(); m != nil {
			left = m
		}
		return t.Run(ctx, from, left)
	})
}

func (r *trial) set(m *machine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.to = m
}

func (r *trial) there() *machine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.to
}

// get waits for a value.
func get[T any](t testing.TB, from <-chan T) T {
	t.Helper()
	return wait.Receive(t, from, "no answer")
}

// unrecorded requires that no note is left.
func unrecorded(t testing.TB, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		require.NoFileExists(t, Path(dir))
	}
}

func TestAGuestMoves(t *testing.T) {
	t.Parallel()
	r := newTrial(t, false)
	target, receiving := r.asTarget()
	sending := r.asSource()
	require.NoError(t, get(t, sending.ended))
	require.NoError(t, get(t, target.Decided()))
	require.NoError(t, get(t, receiving.ended))
	<-r.from.done
	exactlyOne(t, r.to, r.from)
	continues(t, r.from, r.to)
	unrecorded(t, r.toDir)
	note, err := Read(r.fromDir)
	require.NoError(t, err)
	require.Equal(t, migrate.Moved, note.Record)
	info, err := os.Stat(Path(r.fromDir))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "the note has a key")
}

// A guest that a user has paused stays paused after the move.
func TestAPausedGuestMoves(t *testing.T) {
	t.Parallel()
	r := newTrial(t, false)
	require.Empty(t, r.from.fault(t.Context(), "stop"))
	r.from.paused = true
	target, _ := r.asTarget()
	require.NoError(t, get(t, r.asSource().ended))
	require.NoError(t, get(t, target.Decided()))
	require.Equal(t, "paused", r.to.state())
	require.Empty(t, r.to.fault(t.Context(), "cont"))
	exactlyOne(t, r.to, r.from)
	continues(t, r.from, r.to)
}

// A guest stays if its state has changed between the offer and the pause for the switch.
func TestAGuestThatHasChangedStays(t *testing.T) {
	t.Parallel()
	r := newBare(t)
	changed := errors.New("it has released a disk")
	r.check = func(ctx context.Context) error {
		info, err := queryMigration(ctx, r.from)
		require.NoError(t, err)
		require.Equal(t, "pre-switchover", info.Status)
		return changed
	}
	target, receiving := r.asTarget()
	require.ErrorIs(t, get(t, r.asSource().ended), changed)
	require.ErrorContains(t, get(t, target.Decided()), "the source keeps the guest: it has released a disk")
	require.NoError(t, get(t, receiving.ended))
	exactlyOne(t, r.from, nil)
	unrecorded(t, r.fromDir, r.toDir)
}

// A guest stays at the source if the target has other hardware, or if the target's QEMU can't load it or its arrival
// can't be recorded.
func TestAGuestThatTheTargetCannotHaveStays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*trial)
		why     string
	}{
		"other hardware": {
			func(r *trial) { r.refusal = errors.New("it has 3 CPUs") }, "the target refuses the guest: it has 3 CPUs",
		},
		"a device that isn't there": {
			func(r *trial) { r.boot("-device", "virtio-balloon-pci") },
			"the target has given up: QEMU has ended: qemu-system-x86_64: Unknown savevm section or instance '0000:00:03.0/virtio-balloon'",
		},
		"no record": {
			func(r *trial) { r.takeFault = errors.New("the disk is full") }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newBare(t)
			c.prepare(r)
			target, receiving := r.asTarget()
			require.ErrorContains(t, get(t, r.asSource().ended), c.why)
			require.Error(t, get(t, target.Decided()))
			require.NoError(t, get(t, receiving.ended))
			exactlyOne(t, r.from, r.there())
			unrecorded(t, r.fromDir, r.toDir)
		})
	}
}

// A user may cancel a migration at any moment before the guest is released.
func TestAMigrationIsCancelled(t *testing.T) {
	t.Parallel()
	for _, stage := range []migrate.Stage{migrate.Offering, migrate.Copying, migrate.Switching} {
		t.Run(string(stage), func(t *testing.T) {
			t.Parallel()
			r := newBare(t)
			var once sync.Once
			r.at = func(side string, p Progress) {
				if side == "source" && p.Stage == string(stage) {
					once.Do(func() { go r.source.Cancel(t.Context(), errors.New("a user has cancelled it")) })
				}
			}
			target, receiving := r.asTarget()
			err := get(t, r.asSource().ended)
			if err == nil { // it was too late
				require.NoError(t, get(t, target.Decided()))
				require.Equal(t, migrate.Switching, stage)
				exactlyOne(t, r.to, r.from)
				return
			}
			require.EqualError(t, err, "a user has cancelled it")
			exactlyOne(t, r.from, r.there())
			unrecorded(t, r.fromDir)
			if stage != migrate.Offering { // the target may not have heard of an earlier cancel
				const why = "the source keeps the guest: a user has cancelled it"
				require.ErrorContains(t, get(t, target.Decided()), why)
				require.NoError(t, get(t, receiving.ended))
				unrecorded(t, r.toDir)
			}
		})
	}
}

// A guest that writes faster than the transfer is slowed down, then allowed a longer pause, and finally stays.
func TestAGuestThatWritesTooMuchStays(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	r := newTrial(t, true)
	r.bounds = Bounds{Downtime: 5 * time.Millisecond, Bandwidth: 1 << 19}
	var throttle atomic.Int64
	r.at = func(_ string, p Progress) {
		if now := int64(p.Throttle); now > throttle.Load() {
			throttle.Store(now)
		}
	}
	target, receiving := r.asTarget()
	require.ErrorContains(t, get(t, r.asSource().ended), "the guest writes its memory faster (")
	require.Error(t, get(t, target.Decided()))
	require.NoError(t, get(t, receiving.ended))
	exactlyOne(t, r.from, r.there())
	require.EqualValues(t, slowest, throttle.Load())
}

// A guest that writes much moves if the user's bound allows a longer pause.
func TestAGuestThatWritesMuchMovesWithALongerPause(t *testing.T) {
	t.Parallel()
	r := newTrial(t, true)
	r.bounds = Bounds{Downtime: 10 * time.Second, Bandwidth: 2 << 20}
	target, _ := r.asTarget()
	require.NoError(t, get(t, r.asSource().ended))
	require.NoError(t, get(t, target.Decided()))
	exactlyOne(t, r.to, r.from)
	continues(t, r.from, r.to)
}
