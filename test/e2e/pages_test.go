package e2e_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/access/login"
	"vmop/test/browser"
	"vmop/test/wait"
)

// As in docs/tasks/web.md, with a user for the pages and kubectl port-forward, a browser logs in, starts a VM, and
// types into its console.
func pagesInABrowser(t *testing.T, l *lab) {
	v := l.create(t, tiny("paged", func(s *v1.VirtualMachineSpec) { s.VM.State = v1.Stopped }))
	hash, err := login.HashPassword("a password")
	require.NoError(t, err)
	l.kubectl(t, "create", "secret", "generic", "vm-operator-users", "--from-literal=users=admin:"+hash)
	address := "http://" + l.portForward(t)
	awaitUsers(t, address)

	b := browser.New(t)
	b.Open(address+"/vms/paged", "light", 1280)
	b.Do("log in", chromedp.SendKeys(chromedp.CSS("#user"), "admin"),
		chromedp.SendKeys(chromedp.CSS("#password"), "a password"+kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("#vmhead .state"))) // the page requested before the log-in
	b.Do("the VM is stopped", browser.Holds(`document.querySelector("#vmhead .state").textContent.includes("Stopped")`))
	b.Picture("cluster-login")
	b.Open(address+"/", "light", 1280)
	b.Do("start", browser.Press("#start-paged"),
		browser.Holds(`document.querySelector("#vm-paged .state").textContent.includes("Running")`))
	b.Picture("cluster-list")
	v.runs()
	c := v.console().booted() // may take longer than the browser's patience
	_, err = io.WriteString(c.input, "\x1d")
	require.NoError(t, err)

	b.Open(address+"/vms/paged/console", "light", 1280)
	b.Do("the guest's console is shown", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)),
		browser.Holds(`document.querySelector("#terminal").textContent.includes("READY")`),
		chromedp.Focus(chromedp.CSS(".xterm-helper-textarea")))
	_, err = chromedp.Call(b.Context(), input.InsertText, input.InsertTextParams{Text: "sh echo read $((6 * 7)) back"})
	require.NoError(t, err)
	b.Do("the guest answers", chromedp.KeyEvent(kb.Enter),
		browser.Holds(`document.querySelector("#terminal").textContent.includes("read 42 back")`))
	b.Picture("cluster-console")
	require.Contains(t, l.managerLog(t.Context()), `"msg":"stream opened","user":"admin","vm":"paged"`)
	filesThroughPages(t, l, b, address)
	desktopOfAPool(t, l, b, address)
}

// As in docs/tasks/pools.md, a user requests a VM of a pool in the portal. The VM starts, its guest agent logs the user
// in, and the screen appears. The user returns the VM and is logged out.
func desktopOfAPool(t *testing.T, l *lab, b *browser.Browser, address string) {
	v := l.create(t, tiny("desk", func(s *v1.VirtualMachineSpec) {
		s.VM.State, s.Pools = v1.Stopped, []string{"desks"}
		s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
	}))
	l.applyText(t, `
apiVersion: vmoperator.jdrupes.org/v1
kind: VmPool
metadata: {name: desks, namespace: `+namespace+`}
spec: {loginOnAssignment: true, permissions: [{user: admin, may: [start, accessConsole]}]}`)
	b.Open(address+"/portal", "light", 1280)
	b.Do("get a VM", browser.Press("#claim-desks"),
		browser.Holds(`document.querySelector("#card-desk")?.textContent.includes("From the pool desks")`))
	v.runs()
	guest := v.console().booted()
	log := guest.installLogInAgent()
	require.Equal(t, "log-in admin", log())
	v.until("to have its user logged in", func(now *v1.VirtualMachine) bool {
		return now.Status.LoggedInUser == "admin"
	})
	b.Do("the screen may be used", browser.Holds(`document.querySelector("a#screen-desk") !== null`))
	b.Picture("portal-pool")
	b.Open(address+"/vms/desk/screen", "light", 1280)
	v.until("to know who looks", func(now *v1.VirtualMachine) bool { return now.Status.ConsoleUser == "admin" })
	require.Equal(t, "1", l.kubectl(t, "get", "vmpool", "desks", "-o", "jsonpath={.status.assigned}"))
	b.Open(address+"/pools", "light", 1280)
	b.Picture("pools")
	b.Do("give it back", browser.Press("#release-desk"),
		chromedp.WaitVisible(chromedp.CSS("#question")), chromedp.Click(chromedp.CSS("#question button[value=yes]")))
	v.until("to be free", func(now *v1.VirtualMachine) bool { return now.Status.Assignment == nil })
	require.Equal(t, "log-out", log())
}

// installLogInAgent starts the agent of docs/reference/guest-agents.md in a guest, and returns a function that waits
// for the next log-in or log-out.
func (c *console) installLogInAgent() (next func() string) {
	c.t.Helper()
	page, err := os.ReadFile("../../docs/reference/guest-agents.md")
	require.NoError(c.t, err)
	_, script, _ := strings.Cut(string(page), "```sh\n")
	script, _, _ = strings.Cut(script, "```")
	const device = "/dev/virtio-ports/org.jdrupes.vmop_agent.0"
	require.Contains(c.t, script, "port="+device+"\n")
	c.ask("mkdir -p /dev/virtio-ports; ln -s $(grep -l vmop_agent /sys/class/virtio-ports/*/name | " +
		"sed 's,/sys/class/virtio-ports\\(.*\\)/name,/dev\\1,') " + device) // as udev does
	act := "#!/bin/sh\necho ${0##*/} $* >>/tmp/log-ins\n"
	for name, text := range map[string]string{"agent": script, "log-in": act, "log-out": act} {
		encoded := base64.StdEncoding.EncodeToString([]byte(text))
		c.ask("echo " + encoded + " | base64 -d >/bin/" + name + " && chmod +x /bin/" + name)
	}
	c.ask("touch /tmp/log-ins; (agent >/dev/null 2>&1 &)")
	line := 0
	return func() (said string) {
		c.t.Helper()
		line++
		wait.For(c.t, "a user to be logged in or out", func() error {
			if said = c.ask(fmt.Sprintf("sed -n %dp /tmp/log-ins", line)); said == "" {
				return errors.New("none is")
			}
			return nil
		})
		return said
	}
}

// awaitUsers waits until the kubelet has delivered the Secret with the users to the manager.
func awaitUsers(t *testing.T, address string) {
	t.Helper()
	wait.For(t, "users log in by a password", func() error {
		request, err := http.NewRequestWithContext(t.Context(), "GET", address+"/login", http.NoBody)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(page), `id="password"`) {
			err = fmt.Errorf("the page has no field for it: %s", page)
		}
		return err
	})
}

// portForward forwards a port of this computer to the pages, and returns its address.
func (l *lab) portForward(t *testing.T) string {
	t.Helper()
	command := l.KubectlCommand(t.Context(), "-n", namespace, "port-forward", "service/vm-operator", ":8080")
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() { finish(command) })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	to := regexp.MustCompile(`127\.0\.0\.1:\d+`).FindString(line)
	require.NotEmpty(t, to, line)

	// kubectl listens in the cluster's network, but the browser runs outside of it.
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	ctx := context.WithoutCancel(t.Context())
	go func() {
		for {
			front, err := listener.Accept()
			if err != nil {
				return
			}
			go join(front, func() (net.Conn, error) { return l.Dial(ctx, "tcp", to) })
		}
	}()
	return listener.Addr().String()
}

// join copies bytes between two connections until one ends.
func join(front net.Conn, dial func() (net.Conn, error)) {
	defer front.Close()
	back, err := dial()
	if err != nil {
		return
	}
	defer back.Close()
	go func() {
		_, _ = io.Copy(back, front)
		_ = back.Close()
	}()
	_, _ = io.Copy(front, back)
}
