package pages

import "strings"

// Walk describes how a test types the commands of a page.
type Walk struct {
	// Page is the page below docs.
	Page string `json:"page"`
	// Before is a script that prepares what the page assumes.
	Before string `json:"before"`
	// Except contains the commands that do not run unchanged.
	Except []Exception `json:"except"`
}

// Exception is a command of a page that does not run unchanged.
type Exception struct {
	// Command is the command as on the page, or its beginning, followed by "…".
	Command string `json:"command"`
	// Reason shows why it does not run unchanged, or which test types it.
	Reason string `json:"reason"`
	// Instead is the script that runs instead of it, or "".
	Instead string `json:"instead"`

	used bool
}

// Script returns the script for a command: the replacement of the last exception that matches, or the command.
func (w *Walk) Script(command string) string {
	command = strings.TrimSpace(command)
	script := command
	for i, e := range w.Except {
		if begin, prefix := strings.CutSuffix(e.Command, "…"); command == e.Command ||
			prefix && strings.HasPrefix(command, begin) {
			w.Except[i].used, script = true, e.Instead
		}
	}
	return script
}

// Faults returns the exceptions without a reason, and the exceptions that no call of Script has matched.
func (w *Walk) Faults() []string {
	var faults []string
	for _, e := range w.Except {
		if e.Reason == "" {
			faults = append(faults, w.Page+": "+e.Command+": the exception has no reason")
		}
		if !e.used {
			faults = append(faults, w.Page+" does not contain the command "+e.Command)
		}
	}
	return faults
}
