package diskimage

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"vmop/internal/printable"
)

// Reason is one word for the cause of a failed import, suitable as a reason in a Kubernetes condition.
type Reason string

// Reasons of an Error. The problems of a source can disappear by themselves; the problems of an image remain.
const (
	InvalidSource      Reason = "InvalidSource"      // the request is invalid: a URL, a checksum
	SourceNotFound     Reason = "SourceNotFound"     // the server lacks such an image
	SourceUnauthorized Reason = "SourceUnauthorized" // the server requires other credentials
	SourceRefused      Reason = "SourceRefused"      // the server answers with another error
	SourceUnreachable  Reason = "SourceUnreachable"  // no server answers, or it is temporarily unavailable
	SourceStalled      Reason = "SourceStalled"      // the server has stopped sending
	TransferBroken     Reason = "TransferBroken"     // the connection broke too often, or an upload is incomplete
	CertificateInvalid Reason = "CertificateInvalid" // the server can't prove its identity
	AddressRefused     Reason = "AddressRefused"     // the server has an internal address
	RedirectRefused    Reason = "RedirectRefused"    // a loop, or from https to http
	ChecksumMismatch   Reason = "ChecksumMismatch"   // the bytes differ from the expected ones
	TransferTooLarge   Reason = "TransferTooLarge"   // more bytes than Limits.Transfer

	UnsupportedFormat    Reason = "UnsupportedFormat"    // not an image, or an unsupported format
	ImageCorrupt         Reason = "ImageCorrupt"         // the image, or its compression, contradicts itself
	ImageHasBackingFile  Reason = "ImageHasBackingFile"  // the image is an overlay of another image
	ImageHasExternalData Reason = "ImageHasExternalData" // the image's data is in other files
	ImageEncrypted       Reason = "ImageEncrypted"       // reading the image requires a key
	ImageTooLarge        Reason = "ImageTooLarge"        // larger than the disk, or than Limits.VirtualSize
	ImageEmpty           Reason = "ImageEmpty"           // the image has no contents
	NoDiskInImage        Reason = "NoDiskInImage"        // a container image without a disk
	AmbiguousImage       Reason = "AmbiguousImage"       // a container image with several disks

	NoSpace       Reason = "NoSpace"       // the volume of the target or the scratch folder is full
	TargetExists  Reason = "TargetExists"  // the target exists and may not be replaced
	TargetBusy    Reason = "TargetBusy"    // another import is writing the target
	TargetFailed  Reason = "TargetFailed"  // the target can't be written
	LimitExceeded Reason = "LimitExceeded" // the conversion took too much processor time or memory
	TimedOut      Reason = "TimedOut"      // the import exceeded Limits.Time
	Canceled      Reason = "Canceled"      // the caller's context is done
	Internal      Reason = "Internal"      // any other error
)

// Error describes why an import failed.
type Error struct {
	Reason  Reason
	Message string // one line, printable, for the user
	Err     error  // the cause; may be nil

	again bool // a new attempt may succeed
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// longest is the maximum length of a message in characters, because servers and images supply parts of it.
const longest = 1000

// Refuse returns an error with a reason and a text, which is formatted as by fmt.Errorf.
func Refuse(reason Reason, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	text := printable.Clip(printable.Line(err.Error()), longest)
	return &Error{Reason: reason, Message: text, Err: errors.Unwrap(err)}
}

// Again marks the error as temporary: a new attempt may succeed.
func (e *Error) Again() *Error {
	e.again = true
	return e
}

// ReasonOf returns the reason of an error: "" for nil, Internal for an error that isn't an Error.
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

// ofTarget returns the error for a failed write to a file or device.
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

// asImportError returns err as an Error. If the context has ended, the Error describes that instead.
func asImportError(ctx context.Context, err error) error {
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
