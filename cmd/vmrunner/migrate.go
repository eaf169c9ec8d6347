package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/readfile"
	"vmop/runner"
	"vmop/runner/control"
	"vmop/runner/migrate/handover"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmstatus"
	"vmop/vmtypes/policy"
)

const receiveText = "Wait for the guest of another runner, and continue it as the VM NAME, or the VM of -c.\n" +
	"receive writes an invitation, which vmrunner migrate needs. Keep that file secret,\n" +
	"because it contains a key.\n\n" +
	"The configuration must define the same hardware and the same disks; paths, networks and\n" +
	"displays may differ. --copy-disks copies missing disk files and blank block devices; all\n" +
	"other files must belong to the guest. After the move, receive behaves like run.\n\n" +
	"A VM type chooses which programs run, so both sides must use the same VM type. If you\n" +
	"trust the owner of the source, --trust-source accepts another version. That version can\n" +
	"use only files, programs, networks and displays that the version here uses."

func newReceive(f *flags) *cobra.Command {
	var r runner.Receive
	cmd := &cobra.Command{
		Use: "receive [NAME] --invitation FILE", Short: "Receive a migrating guest", Long: receiveText, Args: oneName,
		ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Invitation == "" {
				return cli.UsageError{Err: errors.New("where is the invitation to be written? --invitation FILE")}
			}
			log, err := f.runnerLog(cmd)
			if err != nil {
				return err
			}
			if err := f.takeName(cmd, args); err != nil {
				return f.logFinalError(log, err)
			}
			limits, policyFault := policy.Load(f.types.Policy)
			reload, stop := hangUps()
			defer stop()
			defer watchInterrupts(cmd.Context(), f.config, os.Stderr)()
			return f.logFinalError(log, runVM(cmd.Context(), runner.Options{
				Options: f.prepareBy(limits), PolicyFault: policyFault, Reread: reload, Log: log, Version: version,
				Receive: &r,
			}, &container{}))
		},
	}
	cmd.Flags().StringVar(&r.Address, "listen", "127.0.0.1:0",
		"`ADDRESS` to listen on, HOST:PORT, where the other runner reaches it;\nport 0 is any free port")
	cmd.Flags().StringVar(&r.Invitation, "invitation", "", "`FILE` to write the invitation to; required")
	cmd.Flags().BoolVar(&r.CopyDisks, "copy-disks", false, "copy missing disks from the other runner")
	cmd.Flags().BoolVar(&r.TrustSource, "trust-source", false,
		"accept a version of the VM type that differs from the version here")
	cli.CompleteFile(cmd, "invitation")
	return cmd
}

func newMigrate(f *flags) *cobra.Command {
	var to, bandwidth string
	request := control.MigrationRequest{Downtime: handover.DefaultBounds().Downtime}
	cmd := &cobra.Command{
		Use: "migrate [NAME] --to FILE", Short: "Move a running guest to another runner",
		Long: "Move the running guest, with its memory, to a waiting runner (vmrunner receive). The\n" +
			"command returns when the guest runs there and this VM has ended. Both runners must use\n" +
			"the same disks, or the receiver copies them (vmrunner receive --copy-disks).\n\n" +
			"Until the guest is released to the other runner, Ctrl-C and errors leave it here. A\n" +
			"guest that writes memory faster than it is sent is slowed down, then paused for up to\n" +
			"--downtime. If that is not enough, the guest stays here.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringVar(&to, "to", "", "`FILE` with the invitation of the other runner; required")
	cmd.Flags().DurationVar(&request.Downtime, "downtime", request.Downtime,
		"longest `DURATION` that the guest may be paused")
	cmd.Flags().StringVar(&bandwidth, "bandwidth", "",
		"largest `SIZE` to send per second, such as 100MiB (default no limit)")
	cli.CompleteFile(cmd, "to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to == "" {
			return cli.UsageError{Err: errors.New("where to? --to FILE, the invitation that vmrunner receive writes")}
		}
		if request.Downtime < time.Millisecond {
			return cli.UsageError{Err: fmt.Errorf("--downtime %s: must be at least 1ms", request.Downtime)}
		}
		if bandwidth != "" {
			size, err := vmspec.ParseDecimal(bandwidth)
			if err != nil || size <= 0 {
				return cli.UsageError{Err: fmt.Errorf("--bandwidth %q: must be above 0, such as 100 MiB", bandwidth)}
			}
			request.Bandwidth = int64(size)
		}
		var err error
		if request.Invitation, err = readInvitation(to); err != nil {
			return err
		}
		client, err := vm.dialRunner(cmd, args)
		if err != nil {
			return err
		}
		shown := cli.NewProgress(cmd)
		err = client.Migrate(cmd.Context(), request, migrationProgress(shown))
		shown.End()
		if err == nil {
			cmd.PrintErrln("the guest now runs at the target")
		}
		return err
	}
	return cmd
}

// migrationOf describes a migration: "Leaving to 192.0.2.7:7444: Copying, 1.0 GiB sent".
func migrationOf(m *status.Migration) string {
	if m == nil {
		return ""
	}
	where := " at "
	if m.Direction == status.Leaving {
		where = " to "
	}
	text := string(m.Direction) + where + m.Address + ": " + m.Stage
	if m.Transferred > 0 {
		text += ", " + formatBytes(m.Transferred) + " sent"
	}
	if m.DiskTotal > 0 {
		text += ", " + formatBytes(m.DiskCopied) + " of " + formatBytes(m.DiskTotal) + " of the disks copied"
	}
	return text
}

// largestInvitation is the maximum size of an invitation, in bytes.
const largestInvitation = 64 << 10

func readInvitation(path string) (json.RawMessage, error) {
	text, err := readfile.ReadFile(path, largestInvitation)
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s is not an invitation that vmrunner receive has written", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the invitation: %w", err)
	}
	return text, nil
}

// migrationProgress returns a function that shows the progress of a migration on a terminal.
func migrationProgress(p *cli.Progress) func(vmstatus.Progress) {
	return func(now vmstatus.Progress) {
		var text string
		switch {
		case !p.OnTerminal():
			return
		case now.Total > 0:
			text = fmt.Sprintf("%s: %s sent, %s of %s left", now.Stage, formatBytes(now.Transferred),
				formatBytes(now.Remaining),
				formatBytes(now.Total))
		case now.DiskTotal > 0:
			text = fmt.Sprintf("%s: %s of %s of the disks", now.Stage, formatBytes(now.DiskCopied),
				formatBytes(now.DiskTotal))
		default:
			return
		}
		if now.Throttle > 0 {
			text += fmt.Sprintf(", the guest is slowed down by %d %%", now.Throttle)
		}
		p.Show("", text)
	}
}
