package attach

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"vmop/cli"
)

// SSH is how ssh(1) and scp(1) reach a guest.
type SSH struct {
	// Alias is what ssh calls the guest, also in its file of known hosts.
	Alias string
	// Proxy is the command that connects its standard streams with the guest's port, word
	// by word.
	Proxy []string
	// KnownHosts is the path of the file for the guest's host key; empty: ssh's own.
	KnownHosts string
	// User to log in; empty: as ssh is configured.
	User string
}

// Options returns ssh's options.
func (s SSH) Options() []string {
	var proxy strings.Builder
	for _, word := range s.Proxy {
		proxy.WriteString(" " + shellWord(word))
	}
	options := []string{
		"-o", "ProxyCommand=" + strings.TrimSpace(proxy.String()), "-o", "HostKeyAlias=" + s.Alias,
		"-o", "StrictHostKeyChecking=accept-new",
	}
	if s.KnownHosts != "" {
		file := strings.ReplaceAll(s.KnownHosts, "%", "%%")
		options = append(options, "-o", fmt.Sprintf("UserKnownHostsFile=%q", file))
	}
	if s.User != "" {
		options = append(options, "-o", "User="+s.User)
	}
	return options
}

// shellWord quotes a word for the shell by which ssh runs a proxy, and for ssh, to which %
// means something.
func shellWord(text string) string {
	return "'" + strings.ReplaceAll(strings.ReplaceAll(text, "'", `'\''`), "%", "%%") + "'"
}

// SplitUser splits [USER@]NAME.
func SplitUser(text string) (user, name string) {
	if user, name, ok := strings.Cut(text, "@"); ok {
		return user, name
	}
	return "", text
}

// RemotePaths returns the VM that some of scp's arguments are about, and the arguments as
// scp wants them: with the alias in place of the VM.
func RemotePaths(args []string, alias func(name string) string) (user, name string, all []string, err error) {
	for _, arg := range args {
		host, path, remote := strings.Cut(arg, ":")
		u, n := SplitUser(host)
		if !remote || strings.Contains(alias(n), "/") {
			all = append(all, arg)
			continue
		}
		if name != "" && (n != name || u != user) {
			return "", "", nil, fmt.Errorf("%s and %s: all remote files must be of one VM and user", name, n)
		}
		user, name = u, n
		all = append(all, alias(n)+":"+path)
	}
	if name == "" {
		return "", "", nil, errors.New("none of the files is of a VM: want NAME:PATH")
	}
	return user, name, all, nil
}

// Run runs a program on the standard streams, and takes its exit code over.
func Run(name string, args []string) error {
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
