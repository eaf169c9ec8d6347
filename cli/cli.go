// Package cli holds what all verbs of a program share: output for people and for
// programs, shell completion, and errors that know the exit code.
package cli

import "fmt"

// ExitUsage is the exit code after a wrong call.
const ExitUsage = 2

// UsageError is a wrong call of the program.
type UsageError struct{ Err error }

// Error implements error.
func (e UsageError) Error() string { return e.Err.Error() }

// Unwrap returns what is wrong with the call.
func (e UsageError) Unwrap() error { return e.Err }

// ExitError ends the program with an exit code; what there is to say has been
// said.
type ExitError struct{ Code int }

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
