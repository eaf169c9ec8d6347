package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"image/png"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "vmop/api/v1"
	"vmop/test/guest"
	"vmop/test/program"
	"vmop/test/wait"
)

// user types commands. kubectl finds the plugin, a viewer and ssh.
type user struct {
	*lab
	t    *testing.T
	home string
	env  []string
	// outside is set for a user outside of the cluster's network.
	outside bool
}

// newUser returns a user of the namespace with the VMs.
func newUser(t *testing.T, l *lab) *user {
	t.Helper()
	home := t.TempDir()
	require.NoError(t, program.Build(t.Context(), filepath.Join(home, "kubectl-vmop"), "vmop/cmd/kubectl-vmop"))
	require.NoError(t, os.WriteFile(filepath.Join(home, "xtigervncviewer"), []byte(viewer), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "remote-viewer"), []byte(spiceViewer), 0o700))
	config, err := clientcmd.LoadFromFile(l.Kubeconfig)
	require.NoError(t, err)
	for _, context := range config.Contexts {
		context.Namespace = namespace
	}
	file := filepath.Join(home, "kubeconfig")
	require.NoError(t, clientcmd.WriteToFile(*config, file))
	path := strings.Join([]string{home, filepath.Join(l.Programs, "bin"), os.Getenv("PATH")}, ":")
	return &user{lab: l, t: t, home: home, env: append(os.Environ(), "HOME="+home,
		"XDG_CONFIG_HOME="+filepath.Join(home, "config"), "PATH="+path, "KUBECONFIG="+file)}
}

// spiceViewer is a viewer that saves the screen in ~/screen.ppm.
const spiceViewer = `#!/bin/sh
value() { sed -n "s/^$1=//p" "$2"; }
exec timeout 100 spicy-screenshot -h "$(value host "$1")" -p "$(value port "$1")" -o "$HOME/screen.ppm"
`

// viewer is a VNC viewer that prints the first text of the screen.
const viewer = `#!/usr/bin/env python3
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
print(s.recv(12).decode(), end="")
`

// command returns a command that runs a line.
func (u *user) command(line string) *exec.Cmd {
	cmd := u.Inside(u.t.Context(), "sh", "-c", line)
	if u.outside {
		cmd = exec.CommandContext(u.t.Context(), "sh", "-c", line)
	}
	cmd.Env = u.env
	return cmd
}

// types runs a line, and returns its output.
func (u *user) types(line, input string) string {
	u.t.Helper()
	cmd := u.command(line)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &said
	require.NoError(u.t, cmd.Run(), "%s\n%s%s", line, &out, &said)
	return out.String()
}

// until repeats a line until it succeeds with output that matches a pattern.
func (u *user) until(line, pattern string) {
	u.t.Helper()
	wait.For(u.t, line, func() error {
		out, err := u.command(line).CombinedOutput()
		if err == nil && !regexp.MustCompile(pattern).Match(out) {
			err = errors.New("it prints something else")
		}
		if err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		return nil
	})
}

// The commands in documents of KubeVirt and Deckhouse work with our program's name and no other change, and the guest
// answers.
func commandsOfOthers(t *testing.T, l *lab) {
	u := newUser(t, l)
	vms := map[string]*clusterVM{}
	for _, name := range []string{"myvm", "vmi-ephemeral", "vm-cirros", "linux-vm"} {
		vms[name] = l.create(t, tiny(name, func(s *v1.VirtualMachineSpec) {
			s.VM.State = v1.Stopped
			if name == "linux-vm" {
				s.VM.State, s.VM.Kernel.Initrd = v1.Running, u.withSSH()
				s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
			}
		}))
	}
	linux := vms["linux-vm"]
	linux.runs()
	u.startSSH("linux-vm")
	u.copies("linux-vm")
	cpus := "1"
	text, err := os.ReadFile("testdata/commands.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case strings.HasSuffix(line, `--command "nproc"`):
			require.Equal(t, cpus+"\n", u.types(line, ""))
		case strings.HasSuffix(line, "--local-ssh"):
			require.Equal(t, "42\n", u.types(line, "echo $((40+2))\nexit\n"))
		case strings.Contains(line, " console "):
			u.usesConsole(line)
		case strings.Contains(line, " vnc "):
			require.Equal(t, "RFB 003.008\n", u.types(line, ""))
		case strings.Contains(line, " patch "):
			u.types(line, "")
			linux.condition(v1.ConditionRestartRequired, "True")
		case strings.Contains(line, "restartAwaitingChanges") && cpus == "1":
			require.Regexp(t, `\{"currentValue":1,"desiredValue":2,"operation":"replace","path":"vm.maximumCpus"\}`,
				u.types(line, ""))
		case strings.Contains(line, "restartAwaitingChanges"):
			linux.condition(v1.ConditionRestartRequired, "False")
			require.Empty(t, u.types(line, ""))
		case strings.Contains(line, "get vm"):
			require.Regexp(t, `(?s)NEED RESTART.*linux-vm .* True `, u.types(line, ""))
		case strings.Contains(line, " restart "):
			before := linux.pod()
			u.types(line, "")
			linux.podOtherThan(before)
			linux.runs()
			u.startSSH("linux-vm")
			cpus = "2"
		case strings.HasSuffix(line, " start linux-vm"): // one operation at a time
			u.until("kubectl get vmop", `linux-vm-stop-\S+ +Completed`)
			u.types(line, "")
		default:
			u.types(line, "")
		}
	}
	vms["myvm"].phase(v1.PhaseStopped)
	vms["vm-cirros"].phase(v1.PhaseRunning)
	linux.runs()
	var service corev1.Service
	require.NoError(t, l.client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "vmiservice"}, &service))
	require.Equal(t, int32(22), service.Spec.Ports[0].TargetPort.IntVal)
}

// copies copies a file to the guest and back, with scp on both sides.
func (u *user) copies(name string) {
	u.t.Helper()
	u.types("seq 20000 >~/here && kubectl vmop scp ~/here root@"+name+":/tmp/there && "+
		"kubectl vmop scp root@"+name+":/tmp/there ~/back && cmp ~/here ~/back", "")
}

// usesConsole types on a console, reads the answer, and exits with the escape key.
func (u *user) usesConsole(line string) {
	u.t.Helper()
	require.Equal(u.t, "42", u.asks(line, "echo $((40+2))"))
}

// asks runs a command in the guest, on the console that a line opens.
func (u *user) asks(line, command string) (answer string) {
	u.t.Helper()
	c, cmd := &console{t: u.t}, u.command(line)
	keys, err := cmd.StdinPipe()
	require.NoError(u.t, err)
	c.input, cmd.Stdout, cmd.Stderr = keys, c, c
	require.NoError(u.t, cmd.Start())
	answer = c.booted().ask(command)
	_, err = io.WriteString(keys, "\x1d")
	require.NoError(u.t, err)
	require.NoError(u.t, cmd.Wait(), "the key leaves the console")
	return answer
}

// sshServer returns the path of the guest's SSH server.
func (u *user) sshServer() string { return filepath.Join(u.home, "guest-sshd") }

// withSSH adds an initial RAM disk with an SSH server and other programs of this computer to the image repository, and
// returns its name.
func (u *user) withSSH(programs ...string) string {
	u.t.Helper()
	require.NoError(u.t, program.Build(u.t.Context(), u.sshServer(), "vmop/test/guest/sshd"))
	return u.guestWith(u.t, append(programs, u.sshServer())...)
}

// guestWith adds an initial RAM disk with programs of this computer to the image repository, and returns its name.
func (l *lab) guestWith(t *testing.T, programs ...string) string {
	t.Helper()
	content, err := os.ReadFile(guest.Tiny(t).With(t, programs...).Initrd)
	require.NoError(t, err)
	name := strings.ToLower(filepath.Base(t.Name())) + "-initrd.gz"
	require.NoError(t, os.WriteFile(filepath.Join(l.Dir, "repository", name), content, 0o644))
	return name
}

// beginSSH returns a command that starts the server in a guest and prints "begun" when it listens.
func (u *user) beginSSH() string {
	return u.sshServer() + " >/dev/null 2>&1 & until netstat -ltn | grep -q :22; do sleep 0.2; done; echo begun"
}

// startSSH starts the server in a guest.
func (u *user) startSSH(name string) {
	u.t.Helper()
	require.Equal(u.t, "begun", u.asks("kubectl vmop console "+name, u.beginSSH()))
}

// Each kubectl vmop command for the guest and the machine works with a real VM.
func pluginOfKubectl(t *testing.T, l *lab) {
	u := newUser(t, l)
	v := l.create(t, tiny("plugged", func(s *v1.VirtualMachineSpec) {
		s.VM.State, s.VM.MaximumCPUs, s.VM.CurrentCPUs = v1.Stopped, new(int32(2)), new(int32(1))
		s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
		s.VM.Disks = []v1.Disk{{CDROM: &v1.CDROM{}}}
		s.Permissions = []v1.Permission{{User: robot, May: []v1.Action{"start", "stop", "accessConsole", "resize"}}}
	}))
	u.types("kubectl vmop start plugged", "")
	u.usesConsole("kubectl vmop console plugged") // it is waited for
	require.Contains(t, u.types("kubectl vmop console plugged --log", ""), "READY")
	_, err := png.Decode(strings.NewReader(u.types("kubectl vmop screenshot plugged -f -", "")))
	require.NoError(t, err)
	require.Equal(t, "P6", u.types("kubectl vmop spice plugged >&2 && head -c 2 ~/screen.ppm", ""))
	u.forwards("plugged")
	u.exposes(v)
	u.types("kubectl vmop pause plugged", "")
	v.condition(v1.ConditionReady, "False")
	u.types("kubectl vmop resume plugged && kubectl vmop reset plugged", "")
	v.condition(v1.ConditionReady, "True")
	u.types("kubectl vmop resize plugged --cpus 2 --wait --timeout 5m", "")
	u.types("kubectl vmop cd insert plugged cd.iso", "")
	u.until("kubectl vmop why plugged cd.iso; kubectl exec plugged-0 -- vmrunner qmp query-block", "cd.iso")
	require.Contains(t, u.types("kubectl vmop plan plugged --why", ""), "# @vmtypes//lib/machine.star")
	require.Regexp(t, `^-smp .*# @vmtypes`, u.types("kubectl vmop why plugged -- -smp", ""))
	require.Contains(t, u.types("kubectl vmop why plugged", ""), "plugged is Running")
	require.Contains(t, u.types("kubectl vmop events plugged", ""), "pod/plugged-0")

	change := "kubectl get vm plugged -o yaml | " +
		"sed 's/currentCpus: 2/currentCpus: 1/; s/maximumRam: .*/maximumRam: 192Mi/'"
	out := u.types(change+" | kubectl vmop diff - || test $? = 1", "")
	require.Regexp(t, `(?s)immediately:\n +replace +vm\.currentCpus +2 -> 1\n.*Needs a restart:\n +replace +vm\.maximumRam `, out)

	var bundle string
	wait.For(t, "all parts of a bundle, for each of which there is little time", func() error {
		bundle = u.types("kubectl vmop support-bundle plugged -f - >~/bundle && tar tzf ~/bundle", "")
		if strings.Contains(bundle, "errors.txt") {
			return errors.New(u.types("tar xzOf ~/bundle plugged-support/errors.txt", ""))
		}
		return nil
	})
	for _, file := range []string{
		"definition.yaml", "pod.yaml", "log.txt", "plan.txt", "status.json", "qmp/query-block.json",
	} {
		require.Contains(t, bundle, "plugged-support/"+file+"\n")
	}
	u.types("kubectl vmop restart plugged --wait --timeout 5m", "")
	u.types("kubectl vmop stop plugged --force --wait --timeout 5m", "")
	v.podGone()
	require.Regexp(t, `plugged-restart-\S+ +Completed .* admin `, u.types("kubectl get vmop -o wide", ""))
	u.throughManager(v)
	u.types("kubectl vmop delete plugged --wait --timeout 5m", "")
}

// exposes creates a Service for a running guest's web server, which then answers at the pod's address.
func (u *user) exposes(v *clusterVM) {
	u.t.Helper()
	u.types("kubectl vmop expose "+v.name+" --port 8000 --target-port 80 --type NodePort", "")
	var service corev1.Service
	key := client.ObjectKey{Namespace: namespace, Name: v.name + "-8000"}
	require.NoError(u.t, u.client.Get(u.t.Context(), key, &service))
	u.fetches(net.JoinHostPort(v.pod().Status.HostIP, fmt.Sprint(service.Spec.Ports[0].NodePort)))
}

// forwards reaches the guest's web server through a forwarded port on the user's computer.
func (u *user) forwards(name string) {
	u.t.Helper()
	cmd := u.command("exec kubectl-vmop port-forward " + name + " 18080:80")
	require.NoError(u.t, cmd.Start())
	defer finish(cmd)
	u.fetches("127.0.0.1:18080")
}

// fetches reads the page of the guest's web server from an address in the cluster's network.
func (u *user) fetches(address string) {
	u.t.Helper()
	transport := &http.Transport{DialContext: u.Dial, DisableKeepAlives: true}
	wait.For(u.t, "the guest's web server", func() error {
		request, err := http.NewRequestWithContext(u.t.Context(), "GET", "http://"+address+"/", http.NoBody)
		if err != nil {
			return err
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err == nil && !strings.Contains(string(body), "hello from tiny") {
			err = errors.New("the guest says " + string(body))
		}
		return err
	})
}
