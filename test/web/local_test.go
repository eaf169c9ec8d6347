package web

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/program"
	"vmop/test/wait"
)

// computer is a computer with a VM and "vmmanager local".
type computer struct {
	t    *testing.T
	dir  string
	vm   string // the name of its VM, unique among the tests
	link string
	stop func() // ends "vmmanager local"
	// process is the process of "vmmanager local".
	process *os.Process
}

// echo is the configuration of a VM with the guest of guest.Echo.
const echo = `"/Runner":
  dataDir: DIR/data/NAME
  runtimeDir: DIR/run/NAME
  vm:
    name: NAME
    accelerator: tcg
    firmware: bios
    maximumCpus: 4
    currentCpus: 2      # of four
    maximumRam: 64 MiB
    network: []
    drives:
      - {file: DIR/echo.img, format: raw, bootindex: 0, readOnly: true}
      - type: ide-cd
    serialConsole: {log: DIR/NAME.log}
    display: {vnc: {}}
`

// newComputer returns a computer. replaced contains pairs of texts to replace in the configuration of its VM.
func newComputer(t *testing.T, replaced ...string) *computer {
	t.Helper()
	dir, err := os.MkdirTemp("", "w") // short, because socket paths are limited
	require.NoError(t, err)
	c := &computer{t: t, dir: dir, vm: filepath.Base(dir)}
	t.Cleanup(func() {
		for _, pids := range invariants.Processes(t, dir) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
		require.NoError(t, os.RemoveAll(dir))
	})
	for _, name := range []string{"vmrunner", "vmmanager"} {
		require.NoError(t, program.Build(t.Context(), c.path(name), "vmop/cmd/"+name))
	}
	require.NoError(t, os.WriteFile(c.path("echo.img"), guest.Echo(), 0o600))
	for _, folder := range []string{"vms", "home", "xdg"} {
		require.NoError(t, os.Mkdir(c.path(folder), 0o700))
	}
	text := strings.NewReplacer(append(replaced, "DIR", dir, "NAME", c.vm)...).Replace(echo)
	require.NoError(t, os.WriteFile(c.path("vms/"+c.vm+".yaml"), []byte(text), 0o600))
	c.start()
	c.link = c.newLink()
	return c
}

func (c *computer) path(name string) string { return filepath.Join(c.dir, name) }

// local returns a "vmmanager local" command for the computer's VM.
func (c *computer) local(args ...string) *exec.Cmd {
	cmd := exec.Command(c.path("vmmanager"), append([]string{"local", "--folder", c.path("vms")}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+c.path("home"), "XDG_RUNTIME_DIR="+c.path("xdg"), "XDG_STATE_HOME=")
	return cmd
}

// newLink returns a log-in link.
func (c *computer) newLink() string {
	c.t.Helper()
	out, err := c.local("link").CombinedOutput()
	require.NoError(c.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// start starts "vmmanager local", which ends with the test or when stop is called.
func (c *computer) start(args ...string) {
	c.t.Helper()
	cmd := c.local(args...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.StdoutPipe()
	require.NoError(c.t, err)
	require.NoError(c.t, cmd.Start())
	c.process = cmd.Process
	stop := sync.OnceFunc(func() {
		require.NoError(c.t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(c.t, cmd.Wait(), "%s", &complaints)
		if c.t.Failed() {
			c.t.Logf("vmmanager: %s", &complaints)
		}
	})
	c.stop = stop
	c.t.Cleanup(stop)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(lines.Text(), "run: vmmanager local link") {
			return
		}
	}
	c.t.Fatalf("it does not serve: %s", &complaints)
}

// address returns the address of a page.
func (c *computer) address(path string) string {
	root, _, _ := strings.Cut(c.link, "/link/")
	return root + path
}

// says waits until the guest of its VM has printed a text on its serial port.
func (c *computer) says(text string) {
	c.t.Helper()
	c.saysIn(c.path(c.vm+".log"), text)
}

// saysIn is says for a guest with this log of its serial port.
func (c *computer) saysIn(file, text string) {
	c.t.Helper()
	var log []byte
	for deadline := time.Now().Add(browser.Patience); !bytes.Contains(log,
		[]byte(text)); time.Sleep(20 * time.Millisecond) {
		require.True(c.t, time.Now().Before(deadline), "it says %q, not %q", log, text)
		log, _ = os.ReadFile(file) // it may not exist
	}
}

// enter opens the link.
func (c *computer) enter(b *browser.Browser) {
	c.t.Helper()
	b.Open(c.link, "light", 1280)
	require.Equal(c.t, c.address("/"), browser.Value[string](b, "location.href"), "the token has left the address")
}

func is(selector, text string) chromedp.Action[chromedp.Void] {
	return browser.Holds(`document.querySelector("` + selector + `")?.textContent.includes("` + text + `")`)
}

func click(selector string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.CSS(selector))
}

// A user opens the link, types on a guest's screen and on its console, and stops the VM.
func TestFromLinkToScreen(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	c.enter(b)
	b.Picture("local-stopped")
	b.Do("stopped", is("#vm-"+c.vm+" .state", "Stopped"))
	b.Do("start", click("#start-"+c.vm))
	b.Do("running", is("#vm-"+c.vm+" .state", "Running"))
	c.says(guest.EchoSays)

	b.Open(c.address("/vms/"+c.vm+"/screen"), "light", 1280)
	const ink = `(() => { const c = document.querySelector("#screen canvas"); if (!c) return -1;
		const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
		let n = 0; for (let i = 0; i < d.length; i += 4) if (d[i] | d[i + 1] | d[i + 2]) n++; return n })()`
	b.Ignore("willReadFrequently") // caused by getImageData, above
	b.Do("the screen is shown", chromedp.WaitVisible(chromedp.CSS(`#screen[data-state=connected]`)),
		browser.Holds(ink+" > 500"))
	b.Do("type", chromedp.SendKeys(chromedp.CSS("#screen canvas"), "typed on the screen"+kb.Enter))
	c.says("typed on the screen")
	b.Do("type a text", click("#paste"), chromedp.WaitVisible(chromedp.CSS("#typing-text")),
		chromedp.SetValue(chromedp.CSS("#typing-text"), "Pasted: {a_B} \"1\" ~"), click("#typing .primary"))
	c.says("Pasted: {a_B} \"1\" ~")
	b.Do("type a text on a German keyboard", click("#paste"), chromedp.WaitVisible(chromedp.CSS("#typing-text")),
		chromedp.SetValue(chromedp.CSS("#layout"), "de"),
		chromedp.SetValue(chromedp.CSS("#typing-text"), "zy-/=^Щ."), click("#typing .primary"))
	c.says("yz/&)` .") // the guest's own keyboard is American, and the space ends the dead key
	b.Do("characters that can't be typed are reported", is("#toasts", "Щ"))
	b.Picture("screen")

	b.Open(c.address("/vms/"+c.vm+"/console"), "light", 1280)
	b.Do("the console is shown, with what was before",
		chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)),
		is("#terminal", "Pasted"), chromedp.Focus(chromedp.CSS(".xterm-helper-textarea")))
	_, err := chromedp.Call(b.Context(), input.InsertText, input.InsertTextParams{Text: "typed on the console"})
	require.NoError(t, err)
	c.says("typed on the console")
	b.Picture("console")

	b.Open(c.address("/vms/"+c.vm+"/history"), "light", 1280)
	b.Do("what the runner has seen comes by the stream", is("#vmhistory", "Viewer connected"))
	b.Picture("vm-running")
	b.Do("power off", click("#vmhead summary"), click("#kill-"+c.vm), click("#question .danger"),
		is("#vmhead .state", "Stopped"), chromedp.WaitNotPresent(chromedp.CSS("#screen")))
	b.Picture("vm-stopped")
}

// CPUs and media change in the file and in the running VM, and the file's comments stay.
func TestChangesReachQEMU(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	c.enter(b)
	b.Do("start", click("#start-"+c.vm), is("#vm-"+c.vm+" .state", "Running"))
	b.Open(c.address("/vms/"+c.vm), "light", 1280)
	b.Do("resize", chromedp.SetValue(chromedp.CSS("#cpus"), "3"), click("#vmsize button"))
	wait.Until(t, func() bool {
		out, err := exec.CommandContext(t.Context(), c.path("vmrunner"), "status", "--runtime-dir", c.path("run/"+c.vm),
			"-o", "json").Output()
		return err == nil && bytes.Contains(out, []byte(`"cpus": 3`))
	})
	text, err := os.ReadFile(c.path("vms/" + c.vm + ".yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "    currentCpus: 3      # of four\n")

	b.Do("beyond the maximum", chromedp.SetValue(chromedp.CSS("#cpus"), "6"), click("#vmsize button"),
		is("#vmpending", "vm.maximumCpus"), chromedp.WaitVisible(chromedp.CSS("#pending-restart")))
	b.Do("a medium that there is not", click(`.tabs a[href$="/disks"]`), chromedp.WaitVisible(chromedp.CSS("#vmmedia")),
		chromedp.SetValue(chromedp.CSS("#vmmedia input[name=medium]"), "/no.iso"),
		click("#vmmedia button"), is("#vmalerts", "/no.iso"))
	b.Do("why is QEMU run like this", chromedp.Navigate(c.address("/vms/"+c.vm+"/plan")), is("#plan", "lib/cpus.star"),
		is("#vmdevices", "vm.drives[0]"), click("#vmdevices tbody:has(.lines) summary"),
		chromedp.WaitVisible(chromedp.CSS("#vmdevices .lines")),
		chromedp.SendKeys(chromedp.CSS("[data-filter]"), "smp"),
		browser.Holds(`[...document.querySelectorAll("#plan tbody tr")].filter(r => !r.hidden).length == 1`))
}

// Without the link no page is served, and the link works once.
func TestLinkIsNeeded(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	get := func(method, address, host string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
		require.NoError(t, err)
		r.Host = host
		client := http.Client{CheckRedirect: func(*http.Request,
			[]*http.Request,
		) error {
			return http.ErrUseLastResponse
		}}
		answer, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer
	}
	for _, path := range []string{
		"/", "/vms/" + c.vm, "/live", "/vms/" + c.vm + "/screen/stream?mode=type",
		"/vms/" + c.vm + "/screenshot",
	} {
		require.Equal(t, http.StatusUnauthorized, get("GET", c.address(path), "").StatusCode, path)
	}
	require.Equal(t, http.StatusUnauthorized, get("POST", c.address("/vms/"+c.vm+"/do"), "").StatusCode)
	require.Equal(t, http.StatusForbidden, get("GET", c.address("/link/guessed"), "").StatusCode)
	for _, foreign := range []string{"evil.example", "127.0.0.1", "localhost"} {
		require.Equal(t, http.StatusMisdirectedRequest, get("GET", c.link, foreign).StatusCode, foreign)
	}
	require.Equal(t, http.StatusSeeOther, get("GET", c.link, "").StatusCode)
	require.Equal(t, http.StatusForbidden, get("GET", c.link, "").StatusCode)
}

// A VM keeps running when the pages' server ends, and appears again when it restarts.
func TestPagesComeAndGo(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	c.enter(b)
	b.Do("start", click("#start-"+c.vm), is("#vm-"+c.vm+" .state", "Running"))
	c.says(guest.EchoSays)
	b.Ignore("net::ERR_") // while the server is down
	c.stop()
	b.Do("the page says so, and what to run", chromedp.WaitVisible(chromedp.CSS("#connection")),
		is("#connection code", "vmmanager local --folder "+c.path("vms")),
		browser.Holds(`document.querySelector("#connection").getBoundingClientRect().top < 100`),
		browser.Holds(`getComputedStyle(document.querySelector("#rows form")).pointerEvents == "none"`))
	b.Picture("local-lost")
	c.start()
	b.Do("the page connects again", browser.Holds(`document.querySelector("#connection").hidden`))
	b.Open(c.address("/"), "light", 1280)
	b.Do("it runs", is("#vm-"+c.vm+" .state", "Running"))
	b.Open(c.address("/vms/"+c.vm), "light", 1280)
	b.Do("and the VM is powered off", click("#vmhead summary"), click("#kill-"+c.vm), click("#question .danger"),
		is("#vmhead .state", "Stopped"))
}

// A page of a suspended server, which keeps its connections open, reports within seconds that the server does not
// answer.
func TestASuspendedProgramIsNoticed(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	c.enter(b)
	b.Do("connected", browser.Holds(`document.querySelector("#connection").hidden`))
	require.NoError(t, c.process.Signal(syscall.SIGSTOP))
	t.Cleanup(func() { _ = c.process.Signal(syscall.SIGCONT) }) // so that it can end
	b.Do("the page says so", chromedp.WaitVisible(chromedp.CSS("#connection")))
	require.NoError(t, c.process.Signal(syscall.SIGCONT))
	b.Do("the page is current again", browser.Holds(`document.querySelector("#connection").hidden`))
}

// A browser that shows a guest's page, at a port of 127.0.0.1, does not send it the cookies of our pages, whether these
// use their own address or 127.0.0.1.
func TestAGuestsPageGetsNoCookie(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	var seen atomic.Pointer[http.Header]
	guests := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(&r.Header)
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<link rel="icon" href="data:,"><p>a guest</p>`)
	}))
	defer guests.Close()
	for range 2 {
		c.enter(b)
		b.Do("logged in", is("#vm-"+c.vm+" .state", "Stopped"))
		for _, host := range []string{"127.0.0.1", "localhost"} {
			seen.Store(nil)
			_, port, _ := strings.Cut(guests.Listener.Addr().String(), ":")
			b.Open("http://"+host+":"+port+"/", "light", 1280)
			require.NotNil(t, seen.Load(), host)
			require.Empty(t, seen.Load().Values("Cookie"), host)
		}
		c.stop()
		c.start("--listen", "127.0.0.1:0")
		c.link = c.newLink()
	}
}

// When the session ends, an open page shows how to log in again.
func TestAnEndedSessionSaysWhatToRun(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	c.enter(b)
	b.Ignore("net::ERR_") // while the server is down
	c.stop()
	state, err := filepath.Glob(c.path("home/.local/state/vmmanager/*/sessions.json"))
	require.NoError(t, err)
	require.Len(t, state, 1)
	require.NoError(t, os.Remove(state[0]))
	b.Ignore("401")
	c.start()
	wait.Until(t, func() bool {
		_, err := chromedp.Run(b.Context(), chromedp.WaitVisible(chromedp.CSS("main.login")))
		return err == nil // otherwise the browser was leaving the page
	})
	b.Do("the page shows the command", is("main.login", "vmmanager local link --folder "+c.path("vms")))
	b.Picture("login-local")
	b.Accessible("../..")
}
