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

	"vmop/internal/cli"
	"vmop/runner/adopt/lock"
	"vmop/runner/adopt/record"
	"vmop/runner/config"
	"vmop/runner/control"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// target is the VM that a verb acts on, as specified by the user.
type target struct {
	flags      *flags
	runtimeDir string
	dataDir    string // if find knows it
}

// aboutVM makes a verb accept NAME, -c FILE or --runtime-dir.
func aboutVM(f *flags, cmd *cobra.Command) *target {
	t := &target{flags: f}
	cmd.Flags().StringVar(&t.runtimeDir, "runtime-dir", "", "runtime `DIR` of the VM, instead of NAME")
	if cmd.Args == nil {
		cmd.Args = oneName
	}
	cli.CompleteFolder(cmd, "runtime-dir")
	cmd.ValidArgsFunction = completeNames
	return t
}

// oneName allows at most one NAME.
func oneName(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.UsageError{Err: fmt.Errorf("%s takes one VM, got %q", cmd.CommandPath(), args)}
	}
	return nil
}

// dialRunner connects to the runner of the VM.
func (t *target) dialRunner(cmd *cobra.Command, args []string) (*control.Client, error) {
	dir, err := t.findRuntimeDir(cmd, args)
	if err != nil {
		return nil, err
	}
	client, err := inventory.Reach(cmd.Context(), dir, t.dataDir)
	return client, t.explainTarget(cmd, args, orNoRunner(err, dir))
}

// dialDir connects to the runner of the VM in a runtime directory.
func dialDir(ctx context.Context, dir string) (*control.Client, error) {
	client, err := control.Dial(ctx, filepath.Join(dir, control.SocketName))
	return client, orNoRunner(err, dir)
}

// orNoRunner returns a noRunnerError if QEMU is running without a runner, otherwise err.
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
	lost bool // its data directory is also missing
}

func (e noRunnerError) Error() string {
	if e.lost {
		return fmt.Sprintf("the VM is running (QEMU is process %d) but has no runner, and its data directory was removed or "+
			"renamed; put it back and start the VM, or end it by: vmrunner stop NAME --force", e.pid)
	}
	return fmt.Sprintf("the VM is running (QEMU is process %d) but has no runner; start one by: vmrunner run -c %s",
		e.pid, e.file)
}

// shownName returns the VM's name for messages.
func (t *target) shownName(args []string) string {
	if len(args) > 0 {
		return cli.Printable(args[0])
	}
	return "the VM"
}

// findRuntimeDir returns the runtime directory of the VM. It uses --runtime-dir, NAME, -c or the default
// configuration, in this order.
func (t *target) findRuntimeDir(cmd *cobra.Command, args []string) (string, error) {
	byFile := cmd.Flags().Changed("config")
	switch {
	case len(args) == 1 && (t.runtimeDir != "" || byFile), t.runtimeDir != "" && byFile:
		return "", cli.UsageError{Err: errors.New("which VM? NAME, -c FILE and --runtime-dir are mutually exclusive")}
	case t.runtimeDir != "":
		return t.runtimeDir, nil
	case len(args) == 1:
		dir, err := byName(config.HostEnv(), args[0])
		if errors.Is(err, control.ErrNotRunning) {
			return t.hiddenRuntimeDir(cmd, args[0], err)
		}
		return dir, err
	}
	if byFile {
		if err := t.flags.hasConfig(); err != nil {
			return "", err
		}
	}
	dir, dataDir, err := byConfig(t.flags.config)
	if t.dataDir = dataDir; err != nil || !isListening(dir) {
		// The file may have changed since it started a VM, which may still be running.
		if started := record.StartedBy(t.flags.config); started != "" {
			warnOfConfig(cmd, err)
			t.dataDir = ""
			return started, nil
		}
	}
	if !byFile && errors.Is(err, fs.ErrNotExist) {
		return "", cli.UsageError{Err: fmt.Errorf("which VM? Specify NAME, -c FILE or --runtime-dir%s",
			runningVMs(config.HostEnv()))}
	}
	return dir, err
}

// byConfig returns the runtime directory and the data directory that a configuration specifies.
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

// isListening reports whether a runtime directory contains a control socket.
func isListening(dir string) bool {
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

// byName returns the runtime directory of a VM by its name.
func byName(env config.Env, name string) (string, error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", cli.UsageError{Err: fmt.Errorf("%q is not a valid VM name", name)}
	}
	var dirs []string
	for _, m := range machinesWithSocket(env) {
		if m.Name == name {
			dirs = append(dirs, m.RuntimeDir)
		}
	}
	switch len(dirs) {
	case 0:
		return "", fmt.Errorf("%s: %w%s", name, control.ErrNotRunning, runningVMs(env))
	case 1:
		return dirs[0], nil
	}
	return "", cli.UsageError{Err: fmt.Errorf("which VM? %s is the name of %d VMs; specify --runtime-dir %s",
		name, len(dirs), strings.Join(dirs, " or "))}
}

// runningVMs lists the running VMs for an error message.
func runningVMs(env config.Env) string {
	if all := socketNames(env); len(all) > 0 {
		return "; running VMs: " + strings.Join(all, ", ")
	}
	return "; no VM is running"
}

// socketNames returns the names of the VMs with a control socket.
func socketNames(env config.Env) []string {
	var all []string
	for _, m := range machinesWithSocket(env) {
		all = append(all, m.Name)
	}
	return slices.Compact(all)
}

// machinesWithSocket returns the VMs with a control socket.
func machinesWithSocket(env config.Env) []config.Machine {
	return config.Machines(env, control.SocketName)
}
