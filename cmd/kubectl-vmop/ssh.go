package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	v1 "vmop/api/v1"
	"vmop/cloudinit"
	"vmop/internal/cli"
	"vmop/internal/cli/attach"
)

// sshFlags are the flags that ssh and scp share, with the same names as in virtctl and d8.
type sshFlags struct {
	user, identity, knownHosts string
	port                       int
	options                    []string
}

func (s *sshFlags) addFlags(cmd *cobra.Command, f *flags) {
	p := cmd.Flags()
	p.StringVarP(&s.user, "username", "l", "", "`USER` to log in as (default the first user that cloud-init creates)")
	p.StringVarP(&s.identity, "identity-file", "i", "", "`FILE` with the private key")
	p.IntVarP(&s.port, "port", "p", 22, "`PORT` of the guest")
	p.StringVar(&s.knownHosts, "known-hosts", "",
		"`FILE` with the host keys of guests (default kubectl-vmop/known_hosts in your configuration folder)")
	p.StringArrayVarP(&s.options, "local-ssh-opts", "t", nil, "`OPTION` for ssh or scp; may be repeated")
	p.Bool("local-ssh", true, "only the ssh of this computer is supported")
	_ = p.MarkHidden("local-ssh") // cannot fail: the flag exists
	cmd.ValidArgsFunction = f.completeNames
	cmd.GroupID = groupUse
}

func newSSH(f *flags) *cobra.Command {
	var s sshFlags
	var command string
	cmd := &cobra.Command{
		Use: "ssh [USER@]NAME [COMMAND...]", Short: "Log in to the guest with ssh",
		Long: "Log in to the guest with ssh(1) over any network of the VM (see port-forward). Pass\n" +
			"options of ssh with --local-ssh-opts. The guest's host key is stored for each VM, by\n" +
			"uid. The exit code is ssh's.",
		Example: "  kubectl vmop ssh joe@web\n  kubectl vmop ssh joe@web --command uptime\n" +
			"  kubectl vmop ssh web -- df -h /",
	}
	s.addFlags(cmd, f)
	cmd.Flags().StringVarP(&command, "command", "c", "", "`COMMAND` to run in the guest")
	cmd.Flags().SetInterspersed(true)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if name, _ := splitName(args); name == "" {
			return cli.UsageError{Err: errors.New("which VM? " + usageOf(cmd))}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		host, words := splitName(args)
		user, name := attach.SplitUser(host)
		options, alias, err := s.sshOptions(f, cmd, user, bareName(name))
		if err != nil {
			return err
		}
		if command != "" {
			words = append([]string{command}, words...)
		}
		return attach.Run("ssh", append(append(options, alias), words...))
	}
	return cmd
}

func newSCP(f *flags) *cobra.Command {
	var s sshFlags
	var recursive bool
	cmd := &cobra.Command{
		Use: "scp SOURCE... TARGET", Short: "Copy files to or from the guest", Aliases: []string{"cp"},
		Long: "Copy files to or from the guest with scp(1). A file of the guest is [USER@]NAME:PATH;\n" +
			"all must belong to one VM. Users and keys are the same as for ssh. The exit code is\n" +
			"scp's.",
		Example: "  kubectl vmop scp web:/etc/os-release .\n  kubectl vmop scp -r site root@web:/var/www",
	}
	s.addFlags(cmd, f)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders with their contents")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) < 2 {
			return cli.UsageError{Err: errors.New("usage: kubectl vmop scp SOURCE... TARGET, such as web:/etc/hosts /tmp")}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, name, args, err := attach.RemotePaths(args,
			func(name string) string { return sshPrefix + bareName(name) })
		if err != nil {
			return cli.UsageError{Err: err}
		}
		options, _, err := s.sshOptions(f, cmd, user, bareName(name))
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

// sshPrefix starts the name of a guest for ssh.
const sshPrefix = "vmop-"

// sshOptions returns the options that ssh and scp need to reach a VM's guest, and the guest's name for ssh.
func (s *sshFlags) sshOptions(f *flags, cmd *cobra.Command, user, name string) (options []string, alias string,
	err error,
) {
	g, err := f.findGuest(cmd, []string{name}, true)
	if err != nil {
		return nil, "", err
	}
	program, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find this program: %w", err)
	}
	file := s.knownHosts
	if file == "" {
		if file, err = knownHosts(); err != nil {
			return nil, "", err
		}
	}
	if err := handOn(cmd); err != nil {
		return nil, "", err
	}
	via := attach.SSH{
		Alias: sshPrefix + firstOf(g.uid, name), KnownHosts: file, User: firstOf(user, s.user, g.login),
		Proxy: []string{program, "port-forward", "--stdio", name, fmt.Sprint(s.port)},
	}
	options = via.Options()
	if s.identity != "" {
		options = append(options, "-i", s.identity)
	}
	for _, option := range s.options {
		options = append(options, strings.Fields(option)...)
	}
	return options, sshPrefix + name, nil
}

// knownHosts returns the path of the file for the host keys of guests.
func knownHosts() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the guest's host key: %w", err)
	}
	dir = filepath.Join(dir, "kubectl-vmop")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make a place for the guest's host key: %w", err)
	}
	return filepath.Join(dir, "known_hosts"), nil
}

// loginOf returns the user that cloud-init creates in the guest, or "".
func loginOf(vm *v1.VirtualMachine) string {
	var user []byte
	if c := vm.Spec.CloudInit; c != nil && c.UserData != nil {
		user = c.UserData.Raw
	}
	if p := vm.Spec.Provisioning; p != nil && p.UserData != nil {
		user, _ = json.Marshal(*p.UserData) // a string can be encoded
	}
	data, err := cloudinit.FromJSON(nil, user, nil, nil)
	if err != nil {
		return ""
	}
	return data.Login()
}

func firstOf(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}
