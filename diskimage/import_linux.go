package diskimage

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"vmop/outbound"
)

// Import says what is to be imported, and where to.
type Import struct {
	Source Source
	// Checksum is of the bytes that are transferred, before they are decompressed.
	Checksum Checksum
	// Format is "" for what the header says, or Raw for bytes that are taken as they are, not
	// decompressed either: of anything that a guest may have written, the header says what the
	// guest wants.
	Format Format
	Target Target
	// Scratch is the folder for a copy of an image that must be converted. "" is that of the
	// target, if it is a file; for a device it is that of temporary files.
	Scratch string
	Limits  Limits
	// Reach decides which addresses the source may have, also after a redirect.
	Reach outbound.Rule
	// QEMUImg is the program; "" is qemu-img.
	QEMUImg string
	// Progress is called a few times per second while Run runs, one call at a time.
	Progress func(Progress)
	Log      *slog.Logger // nil for none
}

// Limits are what an import may use. Of fields that are 0, the defaults are meant.
type Limits struct {
	VirtualSize int64         // of the disk, in bytes, if the target doesn't limit it: 2 TiB
	Transfer    int64         // bytes: what the largest disk may need, and a tenth
	Time        time.Duration // of all: 6 hours
	Stall       time.Duration // in which nothing is received: 1 minute
	CPU         time.Duration // of the conversion, on one processor or on several: 1 hour
	Retries     int           // after attempts that didn't get on: 5; less than 0 for none
	Backoff     time.Duration // before the first of them: 1 second; it doubles
}

func (l Limits) withDefaults() Limits {
	l.VirtualSize = cmp.Or(l.VirtualSize, 2<<40)
	l.Time = cmp.Or(l.Time, 6*time.Hour)
	l.Stall = cmp.Or(l.Stall, time.Minute)
	l.CPU = cmp.Or(l.CPU, time.Hour)
	l.Retries = max(cmp.Or(l.Retries, 5), 0)
	l.Backoff = cmp.Or(l.Backoff, time.Second)
	return l
}

// transferFor returns the limit of what is transferred for a disk of a size at most.
func (l Limits) transferFor(most int64) int64 {
	const tables = 64 << 20
	return cmp.Or(l.Transfer, most+most/10+tables)
}

// Result is what was imported.
type Result struct {
	Format      Format `json:"format"`
	Compression string `json:"compression,omitempty"` // gz, xz, zst
	// VirtualSize is that of the disk in the image, in bytes; the target's may be larger.
	VirtualSize int64 `json:"virtualSize"`
	Transferred int64 `json:"transferred"` // bytes
	// Checksum is ALGORITHM:HEX of what was transferred, by the algorithm that was asked for,
	// else sha256; or the digest of a container image; or "" of a file of the host for which
	// none was asked.
	Checksum string `json:"checksum,omitempty"`
	// Warnings are sentences for the user about what could not be made sure.
	Warnings []string `json:"warnings,omitempty"`
}

// Run imports. It returns when the target is on the disk, or nothing is left of it. Errors are
// of the type *Error.
func (i Import) Run(ctx context.Context) (result Result, err error) {
	i.Limits = i.Limits.withDefaults()
	if i.Log == nil {
		i.Log = slog.New(slog.DiscardHandler)
	}
	if i.Format != "" && i.Format != Raw {
		return result, Refuse(InvalidSource, "format %q: want raw, or none for what the image's header says", i.Format)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.Limits.Time,
		Refuse(TimedOut, "the import took more than %s", i.Limits.Time))
	defer cancel()
	out, err := openOutput(i.Target, i.Limits.VirtualSize)
	if err != nil {
		return result, explain(ctx, err)
	}
	defer func() {
		if left := out.abandon(); err == nil && left != nil {
			err = ofTarget("clean up", out.Path, left)
		}
	}()
	for attempt := 1; ; attempt++ {
		a := &attempted{Import: i, out: out, report: newReporter(i.Progress)}
		err = explain(ctx, a.run(ctx))
		a.report.stop()
		var e *Error
		if !errors.As(err, &e) || !e.again || attempt > i.Limits.Retries {
			return a.result, err
		}
		i.Log.Warn("import begins again", "attempt", attempt, "reason", string(e.Reason), "err", e.Message)
		i.network().Pause(ctx, attempt)
	}
}

func (i Import) network() Network {
	return Network{Stall: i.Limits.Stall, Retries: i.Limits.Retries, Backoff: i.Limits.Backoff, Reach: i.Reach}
}
