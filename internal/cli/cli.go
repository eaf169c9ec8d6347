// Package cli contains what all verbs of a program share: output for people and for programs, shell completion, and
// errors with an exit code.
package cli

import "fmt"

// ExitUsage is the exit code for wrong usage.
const ExitUsage = 2

// UsageError is wrong usage of the program.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e UsageError) Unwrap() error { return e.Err }

// ExitError ends the program with an exit code and without a further message.
type ExitError struct{ Code int }

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
