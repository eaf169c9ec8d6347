package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"vmop/internal/cli"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/status"
	"vmop/vmspec"
)

// Limits for querying many VMs.
const (
	queryTime  = 2 * time.Second // for the answer of one VM
	maxQueries = 8
)

// entry is a VM in a list.
type entry struct {
	Name       string `json:"name"`
	RuntimeDir string `json:"runtimeDir"`
	// Status is missing if the runner does not answer. Error then contains the reason, and Runner is one of the
	// constants below.
	Status *status.Status `json:"status,omitempty"`
	Error  string         `json:"error,omitempty"`
	Runner string         `json:"runner,omitempty"`
}

// States of a runner that does not answer.
const (
	runnerMissing = "no runner" // only QEMU is running
	runnerSilent  = "no answer" // the runner was stopped or is overloaded
	runnerEnded   = "ended"     // QEMU has also ended, or is invisible from here
)

// withoutStatus returns the state of a runner that does not answer.
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
		Long: "List your running VMs, including those with a runner that does not answer: \"no runner\"\n" +
			"means that only QEMU is running, \"no answer\" that the runner was stopped or is\n" +
			"overloaded, \"ended\" that both were killed.",
		Args:              cli.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			entries := queryRunners(cmd.Context(), machinesWithSocket(config.HostEnv()))
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
			return cli.Table(cmd.OutOrStdout(), listRows(entries, form == "wide", time.Now()))
		},
	}
	cli.OutputFlag(cmd, &form, "table", "wide", "json", "yaml", "name")
	return cmd
}

// queryRunners returns the reports of the VMs' runners. It waits for at most queryTime.
func queryRunners(ctx context.Context, machines []config.Machine) []entry {
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
	_ = requests.Wait() // the functions return no errors
	return entries
}

func statusOf(ctx context.Context, dir string) (status.Status, error) {
	client, err := dialDir(ctx, dir)
	if err != nil {
		return status.Status{}, err
	}
	return client.Status(ctx)
}

// ramOf returns the guest's RAM, or "" until QEMU has reported it to the runner.
func ramOf(s *status.Status) string {
	if s.RAM == 0 {
		return ""
	}
	return vmspec.Bytes(s.RAM).String()
}

// listRows returns the rows of the table.
func listRows(entries []entry, wide bool, now time.Time) [][]string {
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
			e.Name, stateOf(s), strconv.Itoa(s.CPUs), firstNonEmpty(ramOf(s), "-"),
			firstNonEmpty(s.LoggedInUser, "-"), uptimeText(s, now),
		}
		if wide {
			row = append(row,
				firstNonEmpty(s.VMType, "-"), firstNonEmpty(guestOf(s), "-"), firstNonEmpty(s.QEMU.Version,
					"-"), pidOf(s), e.RuntimeDir)
		}
		rows = append(rows, row)
	}
	return rows
}

// stateOf returns the state, and QEMU's run state unless that is "running".
func stateOf(s *status.Status) string {
	if s.QEMU.Unresponsive {
		return string(s.State) + " (unresponsive)"
	}
	if s.State.Active() && s.QEMU.RunState != "" && s.QEMU.RunState != "running" {
		return string(s.State) + " (" + s.QEMU.RunState + ")"
	}
	return string(s.State)
}

// guestOf returns the operating system of the guest, if known.
func guestOf(s *status.Status) string {
	if s.Guest == nil || s.Guest.OS == nil {
		return ""
	}
	os := s.Guest.OS
	return firstNonEmpty(os.PrettyName, os.Name, os.ID)
}

func pidOf(s *status.Status) string {
	if s.QEMU.PID == 0 {
		return "-"
	}
	return strconv.Itoa(s.QEMU.PID)
}

// uptimeText returns how long the guest has been running.
func uptimeText(s *status.Status, now time.Time) string {
	if s.Started == nil {
		return "-"
	}
	return shortDuration(now.Sub(*s.Started))
}
