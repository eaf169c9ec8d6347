package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"vmop/runner/config"
	"vmop/runner/control"
)

// target is how the user says which VM a verb is about.
type target struct {
	flags      *flags
	runtimeDir string
}

// aboutVM makes a verb take NAME, -c FILE or --runtime-dir.
func aboutVM(f *flags, cmd *cobra.Command) *target {
	t := &target{flags: f}
	cmd.Flags().StringVar(&t.runtimeDir, "runtime-dir", "", "runtime `folder` of the VM")
	if cmd.Args == nil {
		cmd.Args = wrongUse(cobra.MaximumNArgs(1))
	}
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(config.HostEnv()), cobra.ShellCompDirectiveNoFileComp
	}
	return t
}

// wrongUse makes what a check finds an error of use.
func wrongUse(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// dial connects to the runner of the VM.
func (t *target) dial(cmd *cobra.Command, args []string) (*control.Client, error) {
	dir, err := t.find(cmd, args)
	if err != nil {
		return nil, err
	}
	return dialDir(cmd.Context(), dir)
}

func dialDir(ctx context.Context, dir string) (*control.Client, error) {
	return control.Dial(ctx, filepath.Join(dir, control.SocketName))
}

// find returns the runtime directory of the VM: what was said, in the order of
// how clearly it was.
func (t *target) find(cmd *cobra.Command, args []string) (string, error) {
	byFile := cmd.Flags().Changed("config")
	switch {
	case len(args) == 1 && (t.runtimeDir != "" || byFile), t.runtimeDir != "" && byFile:
		return "", usageError{errors.New("which VM? NAME, -c FILE and --runtime-dir exclude each other")}
	case t.runtimeDir != "":
		return t.runtimeDir, nil
	case len(args) == 1:
		return byName(config.HostEnv(), args[0])
	}
	dir, err := byConfig(t.flags.config)
	if !byFile && errors.Is(err, fs.ErrNotExist) {
		return "", usageError{fmt.Errorf("which VM? Say NAME, -c FILE or --runtime-dir%s", running(config.HostEnv()))}
	}
	return dir, err
}

// byConfig returns the runtime directory that a configuration leads to.
func byConfig(file string) (string, error) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return "", err
	}
	dir := cfg.RuntimeDirectory(config.HostEnv())
	if filepath.IsAbs(dir) {
		return dir, nil
	}
	here, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return "", fmt.Errorf("folder of %s: %w", file, err)
	}
	return filepath.Join(here, dir), nil
}

// byName returns the runtime directory of a VM that keeps it where runners do
// unless told otherwise.
func byName(env config.Env, name string) (string, error) {
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		return "", usageError{fmt.Errorf("%q is no name of a VM", name)}
	}
	for _, dir := range runtimeDirs(env) {
		if filepath.Base(dir) == name {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%s: %w%s", name, control.ErrNotRunning, running(env))
}

// running lists the VMs for an error.
func running(env config.Env) string {
	if all := names(env); len(all) > 0 {
		return "; there are: " + strings.Join(all, ", ")
	}
	return ""
}

// names returns the names of the VMs that have a control socket.
func names(env config.Env) []string {
	var all []string
	for _, dir := range runtimeDirs(env) {
		all = append(all, filepath.Base(dir))
	}
	return all
}

// runtimeDirs returns the runtime directories with a control socket below all
// places where runners make theirs, by name. A VM is found once.
func runtimeDirs(env config.Env) []string {
	var dirs []string
	for _, base := range runtimeBases(env) {
		if !mine(base) {
			continue // below /tmp anybody could have made it
		}
		sockets, err := filepath.Glob(filepath.Join(escape(base), "*", control.SocketName))
		if err != nil {
			continue
		}
		for _, socket := range sockets {
			dir := filepath.Dir(socket)
			known := slices.ContainsFunc(dirs, func(d string) bool { return filepath.Base(d) == filepath.Base(dir) })
			if !known && mine(dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return dirs
}

// escape makes a path a pattern that matches it alone.
func escape(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// runtimeBases asks the rules of the configuration for every place they know.
func runtimeBases(env config.Env) []string {
	var bases []string
	add := func(env config.Env) {
		var c config.Config
		c.VM.Name = "x"
		if base := filepath.Dir(c.RuntimeDirectory(env)); !slices.Contains(bases, base) {
			bases = append(bases, base)
		}
	}
	add(env)
	env.Getenv = func(string) string { return "" }
	for _, writable := range []bool{true, false} {
		env.Writable = func(string) bool { return writable }
		add(env)
	}
	return bases
}

// mine tells whether a directory is there and belongs to this user.
func mine(dir string) bool {
	info, err := os.Lstat(dir)
	if err != nil || !info.IsDir() {
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid()
}
