package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/cli/attach"
	"vmop/runner/config"
	"vmop/runner/inventory"
)

func newSSH(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh [USER@]NAME [ARGUMENT...]",
		Short: "Log in to the guest with ssh",
		Long: "Log in to the guest with ssh(1) over any network of the VM (see port-forward), as soon as\n" +
			"its SSH server answers.\n\n" +
			"Everything after NAME is passed to ssh: options and a command. The default USER is the\n" +
			"first user in the configuration's cloud-init data. The guest's host key is stored in\n" +
			"known_hosts in the VM's data directory. The exit code is ssh's.",
		Example: "  vmrunner ssh web\n  vmrunner ssh root@web -A uptime",
	}
	wait := f.onSSH(cmd)
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, name := attach.SplitUser(args[0])
		options, err := f.sshOptions(cmd, user, name, wait)
		if err != nil {
			return err
		}
		return attach.Run("ssh", append(append(options, inventory.SSHAlias(name)), args[1:]...))
	}
	return cmd
}

func newCopy(f *flags) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "cp SOURCE... TARGET",
		Short: "Copy files to or from the guest",
		Long: "Copy files to or from the guest with scp(1). A file of the guest is [USER@]NAME:PATH;\n" +
			"all must belong to one VM. Users and keys are the same as for ssh. The exit code is\n" +
			"scp's.",
		Example: "  vmrunner cp web:/etc/os-release .\n  vmrunner cp -r site root@web:/var/www",
	}
	wait := f.onSSH(cmd)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) < 2 {
			return cli.UsageError{Err: errors.New("usage: vmrunner cp SOURCE... TARGET, such as web:/etc/os-release here")}
		}
		return nil
	}
	cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
		names, _ := f.completeConfigured(cmd, nil, word)
		for i := range names {
			names[i] += ":"
		}
		return names, cobra.ShellCompDirectiveNoSpace
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders with their contents")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, name, args, err := attach.RemotePaths(args, inventory.SSHAlias)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		options, err := f.sshOptions(cmd, user, name, wait)
		if err != nil {
			return err
		}
		if recursive {
			options = append(options, "-r")
		}
		return attach.Run("scp", append(append(options, "--"), args...))
	}
	return cmd
}

// sshWait contains the flags that limit the wait for the guest's SSH server.
type sshWait struct {
	none  bool
	limit time.Duration
}

// onSSH adds the flags and arguments that ssh and cp share.
func (f *flags) onSSH(cmd *cobra.Command) *sshWait {
	w := new(sshWait)
	cmd.Flags().BoolVar(&w.none, "no-wait", false, "don't wait for the guest's SSH server")
	cmd.Flags().DurationVar(&w.limit, "timeout", 5*time.Minute, "wait for at most this `DURATION`; 0 means no limit")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.UsageError{Err: fmt.Errorf("which VM? %s", cmd.UseLine())}
		}
		return nil
	}
	cmd.ValidArgsFunction = f.completeConfigured
	return w
}

// sshOptions waits for the SSH server of a running VM's guest, and returns the options that ssh and scp need to reach
// it.
func (f *flags) sshOptions(cmd *cobra.Command, user, name string, wait *sshWait) ([]string, error) {
	all, err := f.openInventory(cmd, nil)
	if err != nil {
		return nil, err
	}
	vm, err := all.Find(cmd.Context(), name)
	if err != nil {
		return nil, err
	}
	if vm.Status == nil {
		about := &target{flags: f}
		if _, err := about.dialRunner(cmd, []string{name}); err != nil {
			return nil, err
		}
		if vm, err = all.Find(cmd.Context(), name); err != nil {
			return nil, err
		}
	}
	if !wait.none {
		client, err := vm.Dial(cmd.Context())
		if err != nil {
			return nil, err
		}
		if err := awaitGuest(cmd, client, guestWait{name: name, limit: wait.limit}); err != nil {
			return nil, err
		}
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	via := attach.SSH{
		Alias: inventory.SSHAlias(name), User: firstNonEmpty(user, vm.Login()),
		Proxy: []string{program, "port-forward", "--stdio", "--runtime-dir", vm.RuntimeDir, "22"},
	}
	if vm.DataDir != "" {
		via.KnownHosts = vm.KnownHosts()
	}
	if key := vm.Key(); key != "" {
		// A key on the command line replaces ssh's own keys.
		for _, public := range inventory.PublicKeyFiles(config.HostEnv().HomeDir) {
			via.Keys = append(via.Keys, strings.TrimSuffix(public, ".pub"))
		}
		via.Keys = append(via.Keys, key)
	}
	return via.Options(), nil
}
