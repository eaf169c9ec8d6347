package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/inventory"
)

func newLog(f *flags) *cobra.Command {
	var q inventory.LogQuery
	var follow bool
	cmd := &cobra.Command{
		Use: "log NAME", Short: "Show the log of a VM",
		Long: "Show the log of a VM's runner since its last start, with the output of QEMU and the\n" +
			"helpers. If systemd runs the VM, the journal of all starts is shown, and --process is not\n" +
			"available.",
		Example: "  vmrunner log web -f\n" +
			"  vmrunner log web --process swtpm\n" +
			"  vmrunner log web --console",
	}
	f.oneVM(cmd)
	p := cmd.Flags()
	p.BoolVarP(&follow, "follow", "f", false, "also show new lines, until Ctrl-C")
	p.BoolVar(&q.All, "all", false, "also show earlier starts")
	p.StringVar(&q.Process, "process", "", "show only the output of this `PROCESS`: qemu, or a helper such as swtpm")
	p.BoolVar(&q.Console, "console", false, "show the guest's console, if vm.serialConsole.log records it")
	cmd.MarkFlagsMutuallyExclusive("process", "console")
	cli.CompleteFlag(cmd, "process", "qemu", "swtpm", "passt")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		all, err := f.openInventory(cmd, nil)
		if err != nil {
			return err
		}
		log, err := all.Log(cmd.Context(), args[0], q)
		if err != nil {
			return err
		}
		if log.Journal != nil {
			return showJournal(cmd, log.Journal, follow)
		}
		return showLog(cmd, log, follow)
	}
	return cmd
}

// showJournal shows the log of a service with journalctl.
func showJournal(cmd *cobra.Command, words []string, follow bool) error {
	if follow {
		words = append(words, "--follow")
	}
	show := exec.CommandContext(cmd.Context(), words[0], words[1:]...)
	show.Stdout, show.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	return show.Run()
}

// logInterval is the interval between reads of a followed log.
const logInterval = 200 * time.Millisecond

// showLog writes a log. If another file replaces the log file, it first reads the previous file to its end.
func showLog(cmd *cobra.Command, log *inventory.Log, follow bool) error {
	file, err := os.Open(log.File)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(log.Begin, io.SeekStart); err != nil {
		return err
	}
	out := &inventory.LogFilter{Process: log.Process, Out: cmd.OutOrStdout()}
	for {
		if _, err := io.Copy(out, file); err != nil {
			return err
		}
		if !follow {
			return out.End()
		}
		if next := openReplacement(log.File, file); next != nil {
			_, err := io.Copy(out, file)
			if err = errors.Join(err, out.End(), file.Close()); err != nil {
				return err
			}
			file = next
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-time.After(logInterval):
		}
	}
}

// openReplacement opens the file that has replaced another file at its path. It returns nil if the file is the same
// or is missing.
func openReplacement(path string, before *os.File) *os.File {
	now, err := os.Stat(path)
	was, e := before.Stat()
	if errors.Join(err, e) != nil || os.SameFile(now, was) {
		return nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil
	}
	return file
}
