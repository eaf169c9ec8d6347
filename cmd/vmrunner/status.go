package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
)

func newStatus(f *flags) *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "status [NAME]",
		Short: "Show the status of a VM",
		Long: "Show the status of a VM. -o wide includes the conditions. -o json and yaml have the\n" +
			"format of the control interface. For a stopped VM, the exit code is 3, and only text is shown.",
	}
	vm := aboutVM(f, cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := vm.dialRunner(cmd, args)
		if err != nil && (form == "text" || form == "wide") {
			err = vm.showStopped(cmd, args, err)
		}
		if err != nil {
			return err
		}
		ctx, cancel := boundRequest(cmd.Context())
		defer cancel()
		s, err := client.Status(ctx)
		if err != nil {
			return err
		}
		if form == "json" || form == "yaml" {
			return cli.PrintValue(cmd.OutOrStdout(), form, s)
		}
		return printStatus(cmd.OutOrStdout(), s, form == "wide", time.Now())
	}
	cli.OutputFlag(cmd, &form, "text", "wide", "json", "yaml")
	return cmd
}

func printStatus(w io.Writer, s status.Status, wide bool, now time.Time) error {
	if err := cli.Table(w, statusFacts(s, now)); err != nil {
		return err
	}
	for _, section := range []struct {
		title string
		rows  [][]string
		show  bool
	}{
		{"Attached while running", driveRows(s), len(s.Drives) > 0},
		{"Problems", problemRows(s), len(s.Problems) > 0},
		{"Awaiting a restart", changeRows(s.RestartAwaitingChanges), len(s.RestartAwaitingChanges) > 0},
		{"With that, QEMU's arguments", argumentRows(s), wide && len(s.RestartAwaitingArguments) > 0},
		{"Conditions", conditionRows(s, now), wide},
	} {
		if !section.show {
			continue
		}
		fmt.Fprintf(w, "\n%s:\n", section.title)
		if err := cli.Table(w, section.rows); err != nil {
			return err
		}
	}
	return nil
}

// facts are rows of names and values.
type facts [][]string

// add adds a fact, unless its value is empty.
func (f *facts) add(name, value string) {
	if value != "" {
		*f = append(*f, []string{name + ":", value})
	}
}

// statusFacts returns the known parts of a status.
func statusFacts(s status.Status, now time.Time) facts {
	var rows facts
	rows.add("Name", s.Name)
	rows.add("UUID", s.UUID)
	rows.add("VM type", strings.TrimSuffix(s.VMType+", generation "+s.VMTypes, ", generation "))
	rows.add("State", fmt.Sprintf("%s (%s) for %s", stateOf(&s), s.Reason, shortDuration(now.Sub(s.Since))))
	rows.add("Message", s.Message)
	rows.add("What to do", s.Advice())
	if s.Started != nil {
		rows.add("Running for", uptimeText(&s, now))
	}
	rows.add("CPUs", fmt.Sprint(s.CPUs))
	rows.add("RAM", ramOf(&s))
	if s.QEMU.PID != 0 {
		rows.add("QEMU", strings.TrimPrefix(fmt.Sprintf("%s, process %d", s.QEMU.Version, s.QEMU.PID), ", "))
	}
	if s.QEMU.Emulated != "" {
		rows.add("Acceleration", "none, the guest is emulated: "+s.QEMU.Emulated)
	}
	rows.add("Runner", fmt.Sprintf("%s, process %d", s.Runner.Version, s.Runner.PID))
	rows.add("Guest", guestOf(&s))
	if s.Guest != nil {
		for _, i := range s.Guest.Interfaces {
			rows.add("Interface", strings.TrimSpace(i.Name+" "+i.MAC+" "+strings.Join(i.Addresses, " ")))
		}
	}
	for _, a := range s.Addresses {
		rows.add("Address", addressOf(a))
	}
	rows.add("File systems", frozenOf(s.Frozen, now))
	rows.add("Migration", migrationOf(s.Migration))
	rows.add("User", loggedInUser(&s))
	for _, c := range s.Consoles {
		rows.add("Console", consoleOf(c, now))
	}
	rows.add("Configuration", s.Configuration.Error)
	if s.Outcome != nil {
		rows.add("Outcome", strings.TrimSuffix(string(s.Outcome.Cause)+" ("+s.Outcome.Reason+")", " ()"))
	}
	return rows
}

// addressOf describes an address of a guest: "127.0.0.1 port 2222 to 22, 80 to 80 (Host, Configuration)".
func addressOf(a status.Address) string {
	text := a.Address
	for i, p := range a.Ports {
		if i == 0 {
			text += " port"
		}
		text += " " + p.String() + ","
	}
	return fmt.Sprintf("%s (%s, %s)", strings.TrimSuffix(text, ","), a.From, a.Source)
}

// consoleOf describes a viewer: "serial, uid 1000 pid 4711, watching for 5m".
func consoleOf(c status.Console, now time.Time) string {
	does := ""
	switch c.Mode {
	case status.ModeType:
		does = "typing "
	case status.ModeWatch:
		does = "watching "
	}
	return fmt.Sprintf("%s, %s, %sfor %s", c.Kind, c.Name(), does, shortDuration(now.Sub(c.Since)))
}

// loggedInUser returns the logged-in user, and the requested user if they differ.
func loggedInUser(s *status.Status) string {
	if s.WantedUser == s.LoggedInUser {
		return s.LoggedInUser
	}
	why := s.Condition(vmstatus.ConditionUserLoggedIn)
	wish := "no user is requested"
	if s.WantedUser != "" {
		wish = fmt.Sprintf("%s is requested: %s", s.WantedUser, firstNonEmpty(why.Message, string(why.Reason)))
	}
	return strings.TrimPrefix(s.LoggedInUser+"; "+wish, "; ")
}

func problemRows(s status.Status) [][]string {
	rows := make([][]string, len(s.Problems))
	for i, p := range s.Problems {
		rows[i] = []string{"  " + firstNonEmpty(p.Path, firstNonEmpty(string(p.Reason), "-")), p.Message}
	}
	return rows
}

func driveRows(s status.Status) (rows [][]string) {
	for _, d := range s.Drives {
		size := ""
		if d.Capacity > 0 {
			size = vmspec.Bytes(d.Capacity).String()
		}
		rows = append(rows, []string{"  " + d.Name, d.State, size, d.Message})
	}
	return rows
}

func argumentRows(s status.Status) (rows [][]string) {
	for _, a := range s.RestartAwaitingArguments {
		rows = append(rows, []string{"  " + a})
	}
	return rows
}

func changeRows(changes []status.Change) [][]string {
	rows := make([][]string, len(changes))
	for i, c := range changes {
		rows[i] = []string{"  " + c.Operation, c.Path, valueText(c.CurrentValue) + " -> " + valueText(c.DesiredValue)}
	}
	return rows
}

func conditionRows(s status.Status, now time.Time) [][]string {
	rows := make([][]string, len(s.Conditions))
	for i, c := range s.Conditions {
		since := shortDuration(now.Sub(c.LastTransitionTime))
		rows[i] = []string{"  " + string(c.Type), string(c.Status), string(c.Reason), since, c.Message}
	}
	return rows
}

// valueText formats a value of the configuration.
func valueText(v any) string {
	if v == nil {
		return "-"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(text)
}
