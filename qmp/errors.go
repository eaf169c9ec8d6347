package qmp

import (
	"errors"
	"fmt"
)

// ErrClosed is the error of all commands after the connection to QEMU has ended, including running commands. Errors
// that wrap it also wrap the cause.
var ErrClosed = errors.New("the QMP session is closed")

// ErrTooLarge is the cause of the end of a session after its peer has sent a message longer than the limit
// (WithMaxMessage).
var ErrTooLarge = errors.New("message too large")

// Class is QEMU's error class, the only part of an error reply for programs (QAPI type QapiErrorClass). It is itself
// an error, so that you can use errors.Is(err, DeviceNotFound).
type Class string

// QEMU's error classes. Most errors are a GenericError.
const (
	GenericError    Class = "GenericError"
	CommandNotFound Class = "CommandNotFound"
	DeviceNotActive Class = "DeviceNotActive"
	DeviceNotFound  Class = "DeviceNotFound"
	KVMMissingCap   Class = "KVMMissingCap"
)

// Error returns the class's name.
func (c Class) Error() string { return string(c) }

// Error is QEMU's refusal of a command.
type Error struct {
	Class Class  `json:"class"`
	Desc  string `json:"desc"` // for people; changes between versions of QEMU
}

// Error returns QEMU's text, and the class unless it is GenericError.
func (e *Error) Error() string {
	if e.Class == GenericError || e.Class == "" {
		return e.Desc
	}
	return fmt.Sprintf("%s (%s)", e.Desc, string(e.Class))
}

// Is reports whether target is the error's Class.
func (e *Error) Is(target error) bool {
	class, ok := target.(Class)
	return ok && class == e.Class
}
