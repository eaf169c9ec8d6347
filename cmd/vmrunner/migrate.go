package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/regular"
	"vmop/runner"
	"vmop/runner/control"
	"vmop/runner/handover"
	"vmop/runner/status"
	"vmop/vmspec"
	"vmop/vmtypes/policy"
)

const receiveText = "receive waits for the guest of another runner, and continues it as the VM NAME, or that of -c.\n" +
	"It writes an invitation, a file that the other runner needs: give it to vmrunner migrate, and\n" +
	"keep it secret, because it has a key. The configuration must give the guest the same hardware,\n" +
	"and the same disks; paths, networks and displays may differ. With --copy-disks, disks are copied\n" +
	"whose files are not there, and those that are block devices, which must be blank; all other files\n" +
	"must be the guest's own. From then on receive does what run does.\n\n" +
	"A VM type chooses which programs run. So the source's VM type must be the same as the one here. If\n" +
	"you trust the source's owner, --trust-source accepts another version of it. Even then the type uses\n" +
	"no file, program, network or display that this side's own version does not use."

func newReceive(f *flags) *cobra.Command {
	var r runner.Receive
	cmd := &cobra.Command{
		Use: "receive [NAME]", Short: "Wait for a guest that is migrated", Long: receiveText, Args: oneName,
		GroupID: groupFile, ValidArgsFunction: f.completeConfigured,
		RunE: func(cmd *cobra.Command, args []string) error {
			if r.Invitation == "" {
				return cli.UsageError{Err: errors.New("where is the invitation to be written? --invitation FILE")}
			}
			log, err := f.runnerLog(cmd)
			if err != nil {
				return err
			}
			if err := f.takeName(cmd, args); err != nil {
				return f.logged(log, err)
			}
			limits, policyFault := policy.Load(f.types.Policy)
			reload, stop := hangUps()
			defer stop()
			defer insist(cmd.Context(), f.config, os.Stderr)()
			return f.logged(log, run(cmd.Context(), runner.Options{
				Options: f.prepareBy(limits), PolicyFault: policyFault, Reread: reload, Log: log, Version: version,
				Receive: &r,
			}, &container{}))
		},
	}
	cmd.Flags().StringVar(&r.Address, "listen", "127.0.0.1:0",
		"listen at this `address`, HOST:PORT, where the other runner\nreaches it; port 0 is any that is free")
	cmd.Flags().StringVar(&r.Invitation, "invitation", "", "write the invitation to this `file`")
	cmd.Flags().BoolVar(&r.CopyDisks, "copy-disks", false, "copy the disks that are not there")
	cmd.Flags().BoolVar(&r.TrustSource, "trust-source", false,
		"accept another version of the VM type than the one here")
	cli.CompleteFile(cmd, "invitation")
	return cmd
}

func newMigrate(f *flags) *cobra.Command {
	var to, bandwidth string
	request := control.MigrationRequest{Downtime: handover.DefaultBounds().Downtime}
	cmd := &cobra.Command{
		Use: "migrate [NAME] --to FILE", Short: "Move a running guest to another runner",
		Long: "migrate moves the guest to a runner that waits for it (vmrunner receive), with its memory, and\n" +
			"returns when it continues there; this VM has ended then. Both must have the same disks, or the\n" +
			"other one has them copied (vmrunner receive --copy-disks). Until the guest is released to the other\n" +
			"runner, Ctrl-C and every fault leave it here. A guest that writes its memory faster than it is sent\n" +
			"is slowed down, then paused for longer, up to --downtime, and stays if that is not enough.",
	}
	vm := aboutVM(f, cmd)
	cmd.Flags().StringVar(&to, "to", "", "the `file` with the invitation of the other runner")
	cmd.Flags().DurationVar(&request.Downtime, "downtime", request.Downtime, "pause the guest for at most this time")
	cmd.Flags().StringVar(&bandwidth, "bandwidth", "", "send at most this `size` a second, such as 100 MiB")
	cli.CompleteFile(cmd, "to")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if to == "" {
			return cli.UsageError{Err: errors.New("where to? --to FILE, the invitation that vmrunner receive writes")}
		}
		if request.Downtime < time.Millisecond {
			return cli.UsageError{Err: fmt.Errorf("--downtime %s: want at least 1ms", request.Downtime)}
		}
		if bandwidth != "" {
			size, err := vmspec.ParseBytes(bandwidth)
			if err != nil || size <= 0 {
				return cli.UsageError{Err: fmt.Errorf("--bandwidth %q: want more than 0, such as 100 MiB", bandwidth)}
			}
			request.Bandwidth = int64(size)
		}
		var err error
		if request.Invitation, err = readInvitation(to); err != nil {
			return err
		}
		client, err := vm.dial(cmd, args)
		if err != nil {
			return err
		}
		shown := cli.NewProgress(cmd)
		err = client.Migrate(cmd.Context(), request, migrating(shown))
		shown.End()
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
		text += ", " + amount(m.Transferred) + " sent"
	}
	if m.DiskTotal > 0 {
		text += ", " + amount(m.DiskCopied) + " of " + amount(m.DiskTotal) + " of the disks copied"
	}
	return text
}

// largestInvitation is in bytes.
const largestInvitation = 64 << 10

func readInvitation(path string) (json.RawMessage, error) {
	text, err := regular.ReadFile(path, largestInvitation)
	if err == nil && !json.Valid(text) {
		err = fmt.Errorf("%s is not an invitation that vmrunner receive has written", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the invitation: %w", err)
	}
	return text, nil
}

// migrating returns what shows how far a migration is, on a terminal.
func migrating(p *cli.Progress) func(control.MigrationProgress) {
	return func(now control.MigrationProgress) {
		var text string
		switch {
		case !p.OnTerminal():
			return
		case now.Total > 0:
			text = fmt.Sprintf("%s: %s sent, %s of %s left", now.Stage, amount(now.Transferred), amount(now.Remaining),
				amount(now.Total))
		case now.DiskTotal > 0:
			text = fmt.Sprintf("%s: %s of %s of the disks", now.Stage, amount(now.DiskCopied), amount(now.DiskTotal))
		default:
			return
		}
		if now.Throttle > 0 {
			text += fmt.Sprintf(", the guest is slowed down by %d %%", now.Throttle)
		}
		p.Show("", text)
	}
}
