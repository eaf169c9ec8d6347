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
	"vmop/cli"
	"vmop/cli/attach"
	"vmop/cloudinit"
)

// sshFlags are what ssh and scp have alike, with the names that virtctl and d8 have for them.
type sshFlags struct {
	user, identity, knownHosts string
	port                       int
	options                    []string
}

func (s *sshFlags) add(cmd *cobra.Command, f *flags) {
	p := cmd.Flags()
	p.StringVarP(&s.user, "username", "l", "", "`user` to log in; default: the first that cloud-init makes")
	p.StringVarP(&s.identity, "identity-file", "i", "", "`file` with the private key")
	p.IntVarP(&s.port, "port", "p", 22, "`port` of the guest")
	p.StringVar(&s.knownHosts, "known-hosts", "", "`file` for the guest's host key; default: in the user's\nconfiguration, for each VM")
	p.StringArrayVarP(&s.options, "local-ssh-opts", "t", nil, "`option` for ssh, may be repeated")
	p.Bool("local-ssh", true, "there is no other than that of this computer")
	_ = p.MarkHidden("local-ssh") // it is there
	cmd.ValidArgsFunction = f.completeNames
	cmd.GroupID = groupUse
}

func newSSH(f *flags) *cobra.Command {
	var s sshFlags
	var command string
	cmd := &cobra.Command{
		Use: "ssh [USER@]NAME [COMMAND...]", Short: "Log in to the guest by ssh",
		Long: "ssh runs ssh(1) with the guest, whatever network it has (see port-forward). Options for ssh itself\n" +
			"are given by --local-ssh-opts. The guest's host key is kept for each VM, by its uid. The exit code\n" +
			"is that of ssh.",
		Example: "  kubectl vmop ssh joe@web\n  kubectl vmop ssh joe@web --command uptime\n" +
			"  kubectl vmop ssh web -- df -h /",
	}
	s.add(cmd, f)
	cmd.Flags().StringVarP(&command, "command", "c", "", "`command` to run in the guest")
	cmd.Flags().SetInterspersed(true)
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if name, _ := split(args); name == "" {
			return cli.UsageError{Err: errors.New("which VM? " + usage(cmd))}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		host, words := split(args)
		user, name := attach.SplitUser(host)
		options, alias, err := s.reach(f, cmd, user, bare(name))
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
		Long: "scp runs scp(1). Files of the guest are [USER@]NAME:PATH; all are of one VM. Users and keys are as\n" +
			"for ssh. The exit code is that of scp.",
		Example: "  kubectl vmop scp web:/etc/os-release .\n  kubectl vmop scp -r site root@web:/var/www",
	}
	s.add(cmd, f)
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "copy folders with all in them")
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) < 2 {
			return cli.UsageError{Err: errors.New("want: kubectl vmop scp SOURCE... TARGET, such as web:/etc/hosts /tmp")}
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		user, name, args, err := attach.RemotePaths(args, func(name string) string { return sshPrefix + bare(name) })
		if err != nil {
			return cli.UsageError{Err: err}
		}
		options, _, err := s.reach(f, cmd, user, bare(name))
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

// sshPrefix begins what ssh calls a guest.
const sshPrefix = "vmop-"

// reach returns the options by which ssh and scp reach the guest of a VM, and what they call it.
func (s *sshFlags) reach(f *flags, cmd *cobra.Command, user, name string) (options []string, alias string, err error) {
	g, err := f.guest(cmd, []string{name}, true)
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

// loginOf returns the user whom cloud-init makes in the guest; empty if it names none.
func loginOf(vm *v1.VirtualMachine) string {
	var user []byte
	if c := vm.Spec.CloudInit; c != nil && c.UserData != nil {
		user = c.UserData.Raw
	}
	if p := vm.Spec.Provisioning; p != nil && p.UserData != nil {
		user, _ = json.Marshal(*p.UserData) // of a text, which can be encoded
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
