package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/login"
	"vmop/test/browser"
	"vmop/test/cluster/clustertest"
)

// As docs/web.md has it: a user for the pages, kubectl port-forward, and a browser in which one logs in, starts a
// VM, and types into its console.
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
		chromedp.WaitVisible(chromedp.CSS("#vmhead .state"))) // the page that one wanted to see
	b.Do("the VM is stopped", browser.Holds(`document.querySelector("#vmhead .state").textContent.includes("Stopped")`))
	b.Picture("cluster-login")
	b.Open(address+"/", "light", 1280)
	b.Do("start", chromedp.Click(chromedp.CSS("#start-paged")),
		browser.Holds(`document.querySelector("#vm-paged .state").textContent.includes("Running")`))
	b.Picture("cluster-list")
	v.runs()
	c := v.console().booted() // which may take longer than a page may take for anything
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
}

// awaitUsers waits until the manager has the users in their Secret, which its kubelet brings.
func awaitUsers(t *testing.T, address string) {
	t.Helper()
	clustertest.Eventually(t, "users log in by a password", func() error {
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

	// kubectl listens in the cluster's network, and the browser isn't there.
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

// join carries bytes between two connections until one ends.
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
