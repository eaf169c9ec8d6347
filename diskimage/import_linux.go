package diskimage

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"vmop/internal/outbound"
)

// Import describes the source and the target of an import.
type Import struct {
	Source Source
	// Checksum is the checksum of the transferred bytes, before decompression.
	Checksum Checksum
	// Format is "" to read the format from the header, or Raw to import the bytes unchanged, without decompression.
	// Use Raw for everything that a guest may have written, because the guest may have chosen the header.
	Format Format
	Target Target
	// Scratch is the folder for a copy of an image that must be converted. "" means the target's folder if the
	// target is a file, and the folder for temporary files if it is a device.
	Scratch string
	Limits  Limits
	// Reach decides which addresses the source may have, even after a redirect.
	Reach outbound.Rule
	// QEMUImg is the program to run; "" means qemu-img.
	QEMUImg string
	// Progress is called a few times per second while Run runs, one call at a time.
	Progress func(Progress)
	Log      *slog.Logger // nil disables logging
}

// Limits restrict the resources of an import. 0 means the default of a field.
type Limits struct {
	VirtualSize int64         // of the disk in bytes if the target has no limit; default: 2 TiB
	Transfer    int64         // in bytes; default: what the largest disk may need, and a tenth
	Time        time.Duration // of the whole import; default: 6 hours
	Stall       time.Duration // without received bytes; default: 1 minute
	CPU         time.Duration // of the conversion, over all processors; default: 1 hour
	Retries     int           // after attempts without progress; default: 5; negative: no retries
	Backoff     time.Duration // before the first retry; default: 1 second; it doubles
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

// transferFor returns the maximum number of bytes to transfer for a disk of at most the given size.
func (l Limits) transferFor(most int64) int64 {
	const tables = 64 << 20
	return cmp.Or(l.Transfer, most+most/10+tables)
}

// Result describes a completed import.
type Result struct {
	Format      Format `json:"format"`
	Compression string `json:"compression,omitempty"` // gz, xz, zst
	// VirtualSize is the size of the disk in the image, in bytes; the target may be larger.
	VirtualSize int64 `json:"virtualSize"`
	Transferred int64 `json:"transferred"` // bytes
	// Checksum is ALGORITHM:HEX of the transferred bytes. The algorithm is the requested one, by default sha256. For
	// a container image, Checksum is its digest. For a file of the host without a requested checksum, it is "".
	Checksum string `json:"checksum,omitempty"`
	// Warnings are sentences for the user about what could not be verified.
	Warnings []string `json:"warnings,omitempty"`
}

// Run imports the image. When it returns, the target is synced to the disk or, after an error, cleaned up. Errors
// are of the type *Error.
func (i Import) Run(ctx context.Context) (result Result, err error) {
	i.Limits = i.Limits.withDefaults()
	if i.Log == nil {
		i.Log = slog.New(slog.DiscardHandler)
	}
	if i.Format != "" && i.Format != Raw {
		return result, Refuse(InvalidSource, "format %q: use raw, or no format to read it from the image's header", i.Format)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, i.Limits.Time,
		Refuse(TimedOut, "the import took more than %s", i.Limits.Time))
	defer cancel()
	out, err := openOutput(i.Target, i.Limits.VirtualSize)
	if err != nil {
		return result, asImportError(ctx, err)
	}
	defer func() {
		if left := out.abandonTarget(); err == nil && left != nil {
			err = ofTarget("clean up", out.Path, left)
		}
	}()
	for attempt := 1; ; attempt++ {
		a := &attempted{Import: i, out: out, report: newReporter(i.Progress)}
		err = asImportError(ctx, a.runImport(ctx))
		a.report.stopReporting()
		var e *Error
		if !errors.As(err, &e) || !e.again || attempt > i.Limits.Retries {
			return a.result, err
		}
		i.Log.Warn("import begins again", "attempt", attempt, "reason", string(e.Reason), "err", e.Message)
		i.networkOf().Pause(ctx, attempt)
	}
}

func (i Import) networkOf() Network {
	return Network{Stall: i.Limits.Stall, Retries: i.Limits.Retries, Backoff: i.Limits.Backoff, Reach: i.Reach}
}
