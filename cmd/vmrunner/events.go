package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmstatus"
)

func newEvents(f *flags) *cobra.Command {
	var form string
	var types []string
	cmd := &cobra.Command{
		Use:   "events [NAME]",
		Short: "Follow the events of a VM",
		Long: "Print each change of the status and each QEMU event until the VM has stopped. With -o\n" +
			"json each line is an event of the control interface.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringSliceVar(&types, "types", nil, "event `TYPES`, separated by commas: status, qmp (default both)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, t := range types {
			if t != control.TypeStatus && t != control.TypeQMP {
				return cli.UsageError{Err: fmt.Errorf("--types %s: must be status, qmp or both", t)}
			}
		}
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		events, err := client.Events(cmd.Context(), types...)
		if err != nil {
			return err
		}
		defer events.Close()
		var before *status.Status
		for {
			e, err := events.Next()
			switch {
			case errors.Is(err, io.EOF), errors.As(err, new(cli.SignalError)): // the user leaves with Ctrl-C
				return nil
			case err != nil:
				return err
			}
			if err := printEvent(cmd.OutOrStdout(), form, e, before); err != nil {
				return err
			}
			if e.Status != nil {
				before = e.Status
			}
		}
	}
	cli.CompleteFlag(cmd, "types", control.TypeStatus, control.TypeQMP)
	cli.OutputFlag(cmd, &form, "text", "json")
	return cmd
}

func printEvent(w io.Writer, form string, e control.Event, before *status.Status) error {
	if form == "json" {
		text, err := json.Marshal(e)
		if err != nil {
			return fmt.Errorf("encode an event: %w", err)
		}
		return cli.WriteLine(w, string(text))
	}
	line := func(kind, text string) error {
		text = strings.TrimSpace(cli.Printable(text))
		return cli.WriteLine(w, fmt.Sprintf("%s  %-7s  %s", e.Time.Local().Format(time.TimeOnly), kind, text))
	}
	switch e.Type {
	case control.TypeStatus:
		for _, text := range statusNews(before, e.Status) {
			if err := line("status", text); err != nil {
				return err
			}
		}
	case control.TypeQMP:
		return line("qmp", e.Event+" "+string(e.Data))
	case control.TypeDropped:
		return line("dropped", fmt.Sprintf("%d events, which were not read in time", e.Count))
	}
	return nil
}

// statusNews describes the changes of a status, one line each; before is nil for the first status.
func statusNews(before, after *status.Status) []string {
	if after == nil {
		return nil
	}
	if before == nil {
		before = &status.Status{}
	}
	var all []string
	add := func(changed bool, format string, args ...any) {
		if changed {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	add(before.State != after.State || before.Reason != after.Reason,
		"%s (%s) %s", after.State, after.Reason, after.Message)
	if after.State == vmstatus.StateStopped {
		return all // the end implies the other changes
	}
	add(before.QEMU.RunState != after.QEMU.RunState && after.QEMU.RunState != "",
		"QEMU's run state: %s", after.QEMU.RunState)
	for _, c := range after.Conditions {
		old := before.Condition(c.Type)
		switch c.Type {
		case vmstatus.ConditionRunning, vmstatus.ConditionBooted: // the state implies them
		default:
			add(old.Status != c.Status && (old.Status != vmstatus.Unknown || c.Status == vmstatus.True),
				"%s: %s (%s) %s", c.Type, c.Status, c.Reason, c.Message)
		}
	}
	add(before.CPUs != after.CPUs, "CPUs: %d", after.CPUs)
	add(before.RAM != after.RAM, "RAM: %d MiB", after.RAM>>20)
	add(guestOf(before) != guestOf(after), "guest: %s", firstNonEmpty(guestOf(after), "its agent has disconnected"))
	add(guestAddresses(before) != guestAddresses(after) && after.Guest != nil, "addresses: %s",
		firstNonEmpty(guestAddresses(after), "none"))
	add(before.LoggedInUser != after.LoggedInUser, "user: %s", firstNonEmpty(after.LoggedInUser, "none"))
	add(before.LoginFailure != after.LoginFailure && after.LoginFailure != "",
		"%s is not logged in: %s", after.WantedUser, after.LoginFailure)
	add(len(before.Consoles) != len(after.Consoles), "consoles: %d", len(after.Consoles))
	for _, p := range after.Problems {
		known := false
		for _, old := range before.Problems {
			known = known || old == p
		}
		add(!known, "problem: %s %s", p.Path, p.Message)
	}
	return all
}

// guestAddresses returns the addresses of all the guest's interfaces.
func guestAddresses(s *status.Status) string {
	if s.Guest == nil {
		return ""
	}
	var all []string
	for _, i := range s.Guest.Interfaces {
		all = append(all, i.Addresses...)
	}
	return strings.Join(all, " ")
}
