package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmspec"
)

// Bounds of querying many VMs at a time.
const (
	queryTime  = 2 * time.Second // for one to answer
	maxQueries = 8
)

// entry is a VM in a list.
type entry struct {
	Name       string `json:"name"`
	RuntimeDir string `json:"runtimeDir"`
	// Status is missing when the runner does not answer; Error says why, and Runner in one
	// of the words below.
	Status *status.Status `json:"status,omitempty"`
	Error  string         `json:"error,omitempty"`
	Runner string         `json:"runner,omitempty"`
}

// What there is in place of a runner that answers.
const (
	runnerMissing = "no runner" // QEMU runs without one
	runnerSilent  = "no answer" // it was stopped, or is overloaded
	runnerEnded   = "ended"     // so has QEMU, or it cannot be seen from here
)

// withoutStatus returns what there is in place of a runner that answers.
func withoutStatus(err error) string {
	switch {
	case errors.As(err, new(noRunnerError)):
		return runnerMissing
	case errors.Is(err, control.ErrNotRunning):
		return runnerEnded
	}
	return runnerSilent
}

func newPS() *cobra.Command {
	var form string
	cmd := &cobra.Command{
		Use:   "ps",
		Short: "List the running VMs",
		Long: "ps lists the running VMs of this user, and those whose runner does not answer:\n" +
			"\"no runner\" means that QEMU runs on without one, \"no answer\" that the runner was\n" +
			"stopped or is overloaded, \"ended\" that both have been killed.",
		Args:    cli.NoArguments,
		GroupID: groupRunning, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries := query(cmd.Context(), machines(config.HostEnv()))
			switch form {
			case "json", "yaml":
				return cli.PrintValue(cmd.OutOrStdout(), form, entries)
			case "name":
				for _, e := range entries {
					if err := cli.WriteLine(cmd.OutOrStdout(), cli.Printable(e.Name)); err != nil {
						return err
					}
				}
				return nil
			}
			if len(entries) == 0 {
				cmd.PrintErrln("no VM is running")
				return nil
			}
			return cli.Table(cmd.OutOrStdout(), listing(entries, form == "wide", time.Now()))
		},
	}
	cli.OutputFlag(cmd, &form, "table", "wide", "json", "yaml", "name")
	return cmd
}

// query returns what the runners of VMs report. It waits for at most queryTime.
func query(ctx context.Context, machines []config.Machine) []entry {
	entries := make([]entry, len(machines))
	var requests errgroup.Group
	requests.SetLimit(maxQueries)
	for i, m := range machines {
		entries[i] = entry{Name: m.Name, RuntimeDir: m.RuntimeDir}
		requests.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, queryTime)
			defer cancel()
			s, err := statusOf(ctx, m.RuntimeDir)
			if err != nil {
				entries[i].Error, entries[i].Runner = err.Error(), withoutStatus(err)
				return nil
			}
			entries[i].Status = &s
			return nil
		})
	}
	_ = requests.Wait() // no member returns an error
	return entries
}

func statusOf(ctx context.Context, dir string) (status.Status, error) {
	client, err := dialDir(ctx, dir)
	if err != nil {
		return status.Status{}, err
	}
	return client.Status(ctx)
}

// ramOf returns what the guest has; "" until QEMU has said so to the runner.
func ramOf(s *status.Status) string {
	if s.RAM == 0 {
		return ""
	}
	return vmspec.Bytes(s.RAM).String()
}

// listing returns the rows of the list.
func listing(entries []entry, wide bool, now time.Time) [][]string {
	head := []string{"NAME", "STATE", "CPUS", "RAM", "USER", "AGE"}
	if wide {
		head = append(head, "TYPE", "GUEST", "QEMU", "PID", "RUNTIME DIRECTORY")
	}
	rows := [][]string{head}
	for _, e := range entries {
		if e.Status == nil {
			row := []string{e.Name, e.Runner, "", "", "", ""}
			if wide {
				row = append(row, "", "", "", "", e.RuntimeDir)
			}
			rows = append(rows, row)
			continue
		}
		s := e.Status
		row := []string{
			e.Name, stateOf(s), strconv.Itoa(s.CPUs), or(ramOf(s), "-"),
			or(s.LoggedInUser, "-"), uptime(s, now),
		}
		if wide {
			row = append(row,
				or(s.VMType, "-"), or(guestOf(s), "-"), or(s.QEMU.Version, "-"), pidOf(s), e.RuntimeDir)
		}
		rows = append(rows, row)
	}
	return rows
}

// stateOf returns the state, with QEMU's run state if that is not "running".
func stateOf(s *status.Status) string {
	if s.QEMU.Unresponsive {
		return string(s.State) + " (unresponsive)"
	}
	if s.State.Active() && s.QEMU.RunState != "" && s.QEMU.RunState != "running" {
		return string(s.State) + " (" + s.QEMU.RunState + ")"
	}
	return string(s.State)
}

// guestOf returns the operating system of the guest, if it is known.
func guestOf(s *status.Status) string {
	if s.Guest == nil || s.Guest.OS == nil {
		return ""
	}
	os := s.Guest.OS
	return or(os.PrettyName, os.Name, os.ID)
}

func pidOf(s *status.Status) string {
	if s.QEMU.PID == 0 {
		return "-"
	}
	return strconv.Itoa(s.QEMU.PID)
}

// uptime returns how long the guest has run.
func uptime(s *status.Status, now time.Time) string {
	if s.Started == nil {
		return "-"
	}
	return age(now.Sub(*s.Started))
}
