package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/cli"
	"vmop/runner/inventory"
)

func newSSH(f *flags) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "ssh [USER@]NAME [ARGUMENT...]",
		Short: "Log in to the guest by ssh",
		Long: "ssh runs ssh(1) with the guest, whatever network it has (see port-forward). What follows\n" +
			"NAME is for ssh: options, and a command. Without USER it is the first user that the\n" +
			"configuration's cloud-init data name. The guest's host key is kept in known_hosts in the\n" +
			"VM's data directory. The exit code is that of ssh.",
		Example: "  vmrunner ssh web\n  vmrunner ssh root@web -A uptime",
	}
	f.onSSH(cmd)
	cmd.Flags().SetInterspersed(false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, name := splitUser(args[0])
		options, err := f.sshOptions(cmd, user, name)
		if err != nil {
			return err
		}
		return runWith("ssh", append(append(options, sshAlias(name)), args[1:]...))
	}
	return cmd
}

func newCopy(f *flags) *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use:   "cp SOURCE... TARGET",
		Short: "Copy files to or from the guest",
		Long: "cp runs scp(1). Files of the guest are [USER@]NAME:PATH; all are of one VM. Users and keys\n" +
			"are as for ssh. The exit code is that of scp.",
		Example: "  vmrunner cp web:/etc/os-release .\n  vmrunner cp -r site root@web:/var/www",
	}
	f.onSSH(cmd)
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) < 2 {
			return cli.UsageError{Err: errors.New("want: vmrunner cp SOURCE... TARGET, such as web:/etc/os-release here")}
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
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders with all in them")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, name, args, err := remotePaths(args)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		options, err := f.sshOptions(cmd, user, name)
		if err != nil {
			return err
		}
		if recursive {
			options = append(options, "-r")
		}
		return runWith("scp", append(append(options, "--"), args...))
	}
	return cmd
}

// onSSH is what ssh and cp have alike.
func (f *flags) onSSH(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cli.UsageError{Err: fmt.Errorf("which VM? %s", cmd.UseLine())}
		}
		return nil
	}
	cmd.ValidArgsFunction, cmd.GroupID = f.completeConfigured, groupRunning
}

func splitUser(text string) (user, name string) {
	if user, name, ok := strings.Cut(text, "@"); ok {
		return user, name
	}
	return "", text
}

// sshAlias is what ssh calls the guest.
func sshAlias(name string) string { return "vmrunner-" + name }

// remotePaths returns the VM that some of scp's arguments are about, and the arguments as
// scp wants them.
func remotePaths(args []string) (user, name string, all []string, err error) {
	for _, arg := range args {
		host, path, remote := strings.Cut(arg, ":")
		if !remote || strings.Contains(host, "/") {
			all = append(all, arg)
			continue
		}
		u, n := splitUser(host)
		if name != "" && (n != name || u != user) {
			return "", "", nil, fmt.Errorf("%s and %s: all remote files must be of one VM and user", name, n)
		}
		user, name = u, n
		all = append(all, sshAlias(n)+":"+path)
	}
	if name == "" {
		return "", "", nil, errors.New("none of the files is of a VM: want NAME:PATH")
	}
	return user, name, all, nil
}

// sshOptions are the options by which ssh and scp reach the guest of a running VM.
func (f *flags) sshOptions(cmd *cobra.Command, user, name string) ([]string, error) {
	all, err := f.inventory(cmd, nil)
	if err != nil {
		return nil, err
	}
	vm, err := all.Find(cmd.Context(), name)
	if err != nil {
		return nil, err
	}
	if vm.Status == nil {
		_, err := vm.Dial(cmd.Context())
		return nil, f.whyNot(cmd, name, err)
	}
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	proxy := fmt.Sprintf("ProxyCommand=%s port-forward --stdio --runtime-dir %s 22", shellWord(program),
		shellWord(vm.RuntimeDir))
	options := []string{
		"-o", proxy, "-o", "HostKeyAlias=" + sshAlias(name), "-o", "StrictHostKeyChecking=accept-new",
	}
	if vm.DataDir != "" {
		options = append(options, "-o", fmt.Sprintf("UserKnownHostsFile=%q", knownHosts(vm)))
	}
	if user = or(user, vm.Login()); user != "" {
		options = append(options, "-o", "User="+user)
	}
	return options, nil
}

func knownHosts(vm *inventory.VM) string {
	return strings.ReplaceAll(filepath.Join(vm.DataDir, "known_hosts"), "%", "%%")
}

// shellWord quotes a path for the shell by which ssh runs a proxy, and for ssh, to which %
// means something.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "'", `'\''`), "%", "%%") + "'"
}

// runWith runs a program on the standard streams, and takes its exit code over.
func runWith(name string, args []string) error {
	run := exec.Command(name, args...)
	run.Stdin, run.Stdout, run.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := run.Run()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("%s is not installed; on Debian: apt-get install %s", name, packageOf(name))
	case errors.As(err, &exit):
		return cli.ExitError{Code: max(exit.ExitCode(), 1)}
	}
	return err
}

func packageOf(name string) string {
	if slices.Contains([]string{"ssh", "scp"}, name) {
		return "openssh-client"
	}
	return name
}
