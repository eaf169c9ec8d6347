package qmp

import (
	"errors"
	"fmt"
)

// ErrClosed is what every command ends with, now or later, when the connection
// to QEMU has ended. Errors that wrap it also wrap the cause.
var ErrClosed = errors.New("the QMP session is closed")

// ErrTooLarge is the cause of the end of a session whose peer sent a message
// longer than the limit (WithMaxMessage).
var ErrTooLarge = errors.New("message too large")

// Class is QEMU's error class, the only part of an error reply that is meant
// for programs (QAPI type QapiErrorClass). It is an error itself, so that
// errors.Is(err, DeviceNotFound) asks for it.
type Class string

// The classes of QEMU. Nearly everything is a GenericError.
const (
	GenericError    Class = "GenericError"
	CommandNotFound Class = "CommandNotFound"
	DeviceNotActive Class = "DeviceNotActive"
	DeviceNotFound  Class = "DeviceNotFound"
	KVMMissingCap   Class = "KVMMissingCap"
)

// Error returns the class's name.
func (c Class) Error() string { return string(c) }

// Error is a command's refusal by QEMU.
type Error struct {
	Class Class  `json:"class"`
	Desc  string `json:"desc"` // for people; changes between versions of QEMU
}

// Error returns QEMU's text, and the class where it says more than "error".
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
