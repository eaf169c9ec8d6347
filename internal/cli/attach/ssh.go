package attach

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strings"

	"vmop/internal/cli"
)

// SSH describes how ssh(1) and scp(1) reach a guest.
type SSH struct {
	// Alias is ssh's name for the guest, which is also its name in the file of known hosts.
	Alias string
	// Proxy is the command that connects its standard streams to the guest's port, one word per element.
	Proxy []string
	// KnownHosts is the path of the file for the guest's host key; empty means ssh's own file.
	KnownHosts string
	// User is the user to log in as; empty means ssh's configuration.
	User string
	// Keys are files of private keys to try first.
	Keys []string
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
	for _, key := range s.Keys {
		options = append(options, "-o", fmt.Sprintf("IdentityFile=%q", strings.ReplaceAll(key, "%", "%%")))
	}
	return options
}

// shellWord quotes a word for the shell that runs ssh's proxy, and escapes %, which is special to ssh.
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

// RemotePaths replaces the VM in scp's arguments with its alias. It returns the user, the VM's name and all
// arguments.
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
		return "", "", nil, errors.New("no file belongs to a VM: use NAME:PATH")
	}
	return user, name, all, nil
}

// Run runs a program on the standard streams and returns its exit code in an ExitError.
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

// MakeKey creates an SSH key in a file unless it exists, and returns the file with the public key.
func MakeKey(ctx context.Context, file string) (public string, err error) {
	public = file + ".pub"
	if _, err := os.Stat(public); !errors.Is(err, fs.ErrNotExist) {
		return public, err
	}
	// ssh-keygen is part of the package of ssh. It doesn't overwrite a file.
	keygen := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "vmrunner", "-f", file)
	said, err := keygen.CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return "", errors.New("ssh-keygen is not installed; on Debian: apt-get install openssh-client")
	}
	if err != nil {
		return "", fmt.Errorf("create an SSH key: %w %s", err, strings.TrimSpace(string(said)))
	}
	return public, nil
}
