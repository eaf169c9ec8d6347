package diskimage

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"vmop/printable"
)

// Reason is a word for why an import has failed, fit for a condition of Kubernetes.
type Reason string

// The reasons. Those of the source can go away by themselves; those of the image stay.
const (
	InvalidSource      Reason = "InvalidSource"      // what is asked for makes no sense: a URL, a checksum
	SourceNotFound     Reason = "SourceNotFound"     // the server has no such image
	SourceUnauthorized Reason = "SourceUnauthorized" // the server wants other credentials
	SourceRefused      Reason = "SourceRefused"      // the server answers with another error
	SourceUnreachable  Reason = "SourceUnreachable"  // no server answers, or only that it can't now
	SourceStalled      Reason = "SourceStalled"      // the server sends nothing any more
	TransferBroken     Reason = "TransferBroken"     // the connection broke too often, or an upload is incomplete
	CertificateInvalid Reason = "CertificateInvalid" // the server can't prove who it is
	AddressRefused     Reason = "AddressRefused"     // the server is at an internal address
	RedirectRefused    Reason = "RedirectRefused"    // a loop, or from https to http
	ChecksumMismatch   Reason = "ChecksumMismatch"   // other bytes than expected
	TransferTooLarge   Reason = "TransferTooLarge"   // more bytes than Limits.Transfer

	UnsupportedFormat    Reason = "UnsupportedFormat"    // no image, or of another format
	ImageCorrupt         Reason = "ImageCorrupt"         // the image, or its compression, contradicts itself
	ImageHasBackingFile  Reason = "ImageHasBackingFile"  // the image names another one that it is an overlay of
	ImageHasExternalData Reason = "ImageHasExternalData" // the image names files that have its data
	ImageEncrypted       Reason = "ImageEncrypted"       // the image can be read with a key only
	ImageTooLarge        Reason = "ImageTooLarge"        // larger than the disk, or than Limits.VirtualSize
	ImageEmpty           Reason = "ImageEmpty"           // there is nothing in it
	NoDiskInImage        Reason = "NoDiskInImage"        // a container image without a disk
	AmbiguousImage       Reason = "AmbiguousImage"       // a container image with several

	NoSpace       Reason = "NoSpace"       // the target's, or the scratch folder's volume is full
	TargetExists  Reason = "TargetExists"  // and isn't to be replaced
	TargetBusy    Reason = "TargetBusy"    // another import writes there
	TargetFailed  Reason = "TargetFailed"  // it can't be written
	LimitExceeded Reason = "LimitExceeded" // the conversion took too much processor time or memory
	TimedOut      Reason = "TimedOut"      // Limits.Time is over
	Canceled      Reason = "Canceled"      // the caller's context is done
	Internal      Reason = "Internal"      // none of these
)

// Error is why an import failed.
type Error struct {
	Reason  Reason
	Message string // one line, printable, for the user
	Err     error  // what caused it; may be nil

	again bool // a new attempt may succeed
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// longest is how many characters a message has at most: parts of it are said by servers and
// images.
const longest = 1000

// Refuse returns an error of a reason, with a text as of fmt.Errorf.
func Refuse(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	text := printable.Clip(printable.Line(err.Error()), longest)
	return &Error{Reason: reason, Message: text, Err: errors.Unwrap(err)}
}

// Again says of an error that a new attempt may succeed.
func (e *Error) Again() *Error {
	e.again = true
	return e
}

// ReasonOf returns the reason of an error: "" of none, Internal of one that isn't an Error.
func ReasonOf(err error) Reason {
	var e *Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Reason
	}
	return Internal
}

// ofTarget is an error of a write to a file or device.
func ofTarget(what, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*Error)):
		return err
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Refuse(NoSpace, "%s %s: its volume is full: %w", what, name, err)
	case errors.Is(err, syscall.EFBIG):
		return Refuse(ImageTooLarge, "%s %s: its file system has no files that large: %w", what, name, err)
	}
	return Refuse(TargetFailed, "%s %s: %w", what, name, err)
}

// explain returns err as an Error; if the context has ended, that is the reason.
func explain(ctx context.Context, err error) error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.As(context.Cause(ctx), &e):
		return e
	case ctx.Err() != nil:
		return Refuse(Canceled, "the import was canceled: %w", context.Cause(ctx))
	case errors.As(err, &e):
		return e
	}
	return Refuse(Internal, "%w", err)
}
