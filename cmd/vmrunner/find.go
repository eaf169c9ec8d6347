package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/runner/lock"
	"vmop/runner/record"
	"vmop/vmspec"
)

// target is the VM that a verb acts on, as the user has specified it.
type target struct {
	flags      *flags
	runtimeDir string
	dataDir    string // as far as find knows it
}

// aboutVM makes a verb take NAME, -c FILE or --runtime-dir.
func aboutVM(f *flags, cmd *cobra.Command) *target {
	t := &target{flags: f}
	cmd.Flags().StringVar(&t.runtimeDir, "runtime-dir", "", "runtime `folder` of the VM")
	if cmd.Args == nil {
		cmd.Args = oneName
	}
	cli.CompleteFolder(cmd, "runtime-dir")
	cmd.ValidArgsFunction, cmd.GroupID = completeNames, groupRunning
	return t
}

// oneName refuses more than the NAME of one VM.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.UsageError{Err: fmt.Errorf("%s takes one VM, got %q", cmd.CommandPath(), args)}
	}
	return nil
}

// dial connects to the runner of the VM.
func (t *target) dial(cmd *cobra.Command, args []string) (*control.Client, error) {
	dir, err := t.find(cmd, args)
	if err != nil {
		return nil, err
	}
	client, err := inventory.Reach(cmd.Context(), dir, t.dataDir)
	return client, orNoRunner(err, dir)
}

// dialDir connects to the runner of the VM in a runtime directory.
func dialDir(ctx context.Context, dir string) (*control.Client, error) {
	client, err := control.Dial(ctx, filepath.Join(dir, control.SocketName))
	return client, orNoRunner(err, dir)
}

// orNoRunner returns err, or that QEMU is running without a runner.
func orNoRunner(err error, dir string) error {
	if !errors.Is(err, control.ErrNotRunning) {
		return err
	}
	pid, file := record.Left(dir)
	if pid == 0 {
		return err
	}
	r, there, e := record.Read(dir)
	return noRunnerError{pid, cmp.Or(file, "FILE"), e == nil && there && lock.Lost(r.DataDir)}
}

// noRunnerError is the error for a VM whose runner was killed.
type noRunnerError struct {
	pid  int // of QEMU
	file string
	lost bool // so is its data directory
}

func (e noRunnerError) Error() string {
	if e.lost {
		return fmt.Sprintf("the VM is running (QEMU is process %d) but has no runner, and its data directory was removed or "+
			"renamed; put it back and start the VM, or end it by: vmrunner stop NAME --force", e.pid)
	}
	return fmt.Sprintf("the VM is running (QEMU is process %d) but has no runner; start one by: vmrunner run -c %s",
		e.pid, e.file)
}

// find returns the runtime directory of the VM: that of --runtime-dir, NAME, -c or the
// default configuration, in this order.
func (t *target) find(cmd *cobra.Command, args []string) (string, error) {
	byFile := cmd.Flags().Changed("config")
	switch {
	case len(args) == 1 && (t.runtimeDir != "" || byFile), t.runtimeDir != "" && byFile:
		return "", cli.UsageError{Err: errors.New("which VM? NAME, -c FILE and --runtime-dir are mutually exclusive")}
	case t.runtimeDir != "":
		return t.runtimeDir, nil
	case len(args) == 1:
		dir, err := byName(config.HostEnv(), args[0])
		if errors.Is(err, control.ErrNotRunning) {
			return t.hidden(cmd, args[0], err)
		}
		return dir, err
	}
	if byFile {
		if err := t.flags.hasConfig(); err != nil {
			return "", err
		}
	}
	dir, dataDir, err := byConfig(t.flags.config)
	if t.dataDir = dataDir; err != nil || !listens(dir) {
		// The file has changed since; the VM that it has started may still be running.
		if started := record.StartedBy(t.flags.config); started != "" {
			warnOfConfig(cmd, err)
			t.dataDir = ""
			return started, nil
		}
	}
	if !byFile && errors.Is(err, fs.ErrNotExist) {
		return "", cli.UsageError{Err: fmt.Errorf("which VM? Specify NAME, -c FILE or --runtime-dir%s",
			running(config.HostEnv()))}
	}
	return dir, err
}

// byConfig returns the runtime directory and the data directory that a configuration leads to.
func byConfig(file string) (runtimeDir, dataDir string, err error) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return "", "", err
	}
	here, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", "", fmt.Errorf("folder of %s: %w", file, err)
	}
	if dataDir, err = cfg.DataDirectory(config.HostEnv()); err == nil {
		dataDir = vmspec.Within(here, dataDir)
	}
	return vmspec.Within(here, cfg.RuntimeDirectory(config.HostEnv())), dataDir, nil
}

// listens reports whether there is a control socket in a runtime directory.
func listens(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, control.SocketName))
	return err == nil
}

// warnOfConfig prints a warning if the configuration of a running VM has become invalid.
func warnOfConfig(cmd *cobra.Command, err error) {
	if err != nil {
		cmd.PrintErrf("vmrunner: warning: using the VM that was started by this file, which is now invalid: %s\n",
			cli.Describe(err))
	}
}

// byName returns the runtime directory of the VM of a name.
func byName(env config.Env, name string) (string, error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", cli.UsageError{Err: fmt.Errorf("%q is not a valid VM name", name)}
	}
	var dirs []string
	for _, m := range machines(env) {
		if m.Name == name {
			dirs = append(dirs, m.RuntimeDir)
		}
	}
	switch len(dirs) {
	case 0:
		return "", fmt.Errorf("%s: %w%s", name, control.ErrNotRunning, running(env))
	case 1:
		return dirs[0], nil
	}
	return "", cli.UsageError{Err: fmt.Errorf("which VM? %s is the name of %d VMs; specify --runtime-dir %s",
		name, len(dirs), strings.Join(dirs, " or "))}
}

// running lists the running VMs for an error message.
func running(env config.Env) string {
	if all := names(env); len(all) > 0 {
		return "; running VMs: " + strings.Join(all, ", ")
	}
	return "; no VM is running"
}

// names returns the names of the VMs that have a control socket.
func names(env config.Env) []string {
	var all []string
	for _, m := range machines(env) {
		all = append(all, m.Name)
	}
	return slices.Compact(all)
}

// machines returns the VMs that have a control socket.
func machines(env config.Env) []config.Machine { return config.Machines(env, control.SocketName) }
