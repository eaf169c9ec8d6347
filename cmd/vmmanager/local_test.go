package main

import (
	"bufio"
	"bytes"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// localPages is a user with pages of vmmanager local.
type localPages struct {
	t    *testing.T
	home string
	said bytes.Buffer // the program's output
}

func newLocalPages(t *testing.T) *localPages {
	t.Helper()
	home, err := os.MkdirTemp("", "l") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	require.NoError(t, os.Mkdir(filepath.Join(home, "vms"), 0o700))
	return &localPages{t: t, home: home}
}

// place is the folder of its state.
func (l *localPages) place() localPlace {
	return localPlace(filepath.Join(l.home, ".local/state/vmmanager"))
}

func (l *localPages) command(args ...string) *exec.Cmd {
	cmd := exec.Command("vmmanager", append([]string{"local"}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+l.home, "XDG_STATE_HOME=", "XDG_RUNTIME_DIR="+l.home,
		"XDG_CONFIG_HOME="+l.home)
	return cmd
}

// start starts the pages, and returns a function that ends them.
func (l *localPages) start(args ...string) (stop func()) {
	l.t.Helper()
	cmd := l.command(append([]string{"--runner", "vmmanager"}, args...)...)
	out, err := cmd.StdoutPipe()
	require.NoError(l.t, err)
	cmd.Stderr = cmd.Stdout
	require.NoError(l.t, cmd.Start())
	lines, served := bufio.NewScanner(out), make(chan bool, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for lines.Scan() {
			l.said.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "run: vmmanager local link") {
				served <- true
			}
		}
		close(served)
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		require.NoError(l.t, cmd.Process.Signal(syscall.SIGTERM))
		<-ended
		require.NoError(l.t, cmd.Wait(), "%s", &l.said)
	}
	l.t.Cleanup(stop)
	require.True(l.t, <-served, "it ended")
	return stop
}

// get returns the output of vmmanager local for a verb.
func (l *localPages) get(verb string) string {
	l.t.Helper()
	out, err := l.command(verb).CombinedOutput()
	require.NoError(l.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// caller is a browser, or an attacker with one of its secrets.
type caller struct {
	t      *testing.T
	root   string // http://HOST:PORT
	at     string // the address behind it, if no name service resolves it
	cookie *http.Cookie
	key    string
}

// opens logs in with a link, and returns the browser with its cookies and keys.
func (l *localPages) opens(link string) caller {
	l.t.Helper()
	found := regexp.MustCompile(`^(http://([^/]+))/link/\w+$`).FindStringSubmatch(link)
	require.NotNil(l.t, found, link)
	c := caller{t: l.t, root: found[1], at: found[2]}
	if host, port, _ := net.SplitHostPort(c.at); strings.HasSuffix(host, ".localhost") {
		c.at = "127.0.0.1:" + port
	}
	answer := c.do(http.MethodGet, strings.TrimPrefix(link, c.root), "")
	require.Equal(l.t, http.StatusSeeOther, answer.StatusCode)
	require.Len(l.t, answer.Cookies(), 1)
	c.cookie = answer.Cookies()[0]
	_, c.key, _ = strings.Cut(answer.Header.Get("Location"), "#page-key=")
	require.NotEmpty(l.t, c.key)
	return c
}

func (c caller) do(method, path, body string, header ...string) *http.Response {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.at+path, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Host = strings.TrimPrefix(c.root, "http://")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if c.cookie != nil {
		r.AddCookie(c.cookie)
	}
	if c.key != "" {
		r.Header.Set("Vmop-Page-Key", c.key)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(c.t, err)
	require.NoError(c.t, answer.Body.Close())
	return answer
}

// acts sends requests to the API and to forms, and returns their status codes.
func (c caller) acts(header ...string) (codes []int) {
	c.t.Helper()
	form := append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)
	for _, a := range []*http.Response{
		c.do(http.MethodGet, "/api/v1/vms", "", header...),
		c.do(http.MethodPut, "/api/v1/vms/evil/definition", "a: b",
			append([]string{"If-None-Match", "*"}, header...)...),
		c.do(http.MethodPost, "/vms/evil/do", "do=start", form...),
		c.do(http.MethodGet, "/vms/evil/screenshot", "", header...),
	} {
		codes = append(codes, a.StatusCode)
	}
	return codes
}

// A guest that sees a browser's cookie can read pages with it, but can't change anything, whether the pages listen at
// their own address or at 127.0.0.1.
func TestAStolenCookieDoesNothing(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--listen", "127.0.0.1:0"}} {
		l := newLocalPages(t)
		stop := l.start(args...)
		user := l.opens(l.get("link"))
		host, _, _ := net.SplitHostPort(strings.TrimPrefix(user.root, "http://"))
		require.NotContains(t, []string{"127.0.0.1", "localhost", "::1"}, host)
		require.Equal(t, []int{200, 422, 404, 404}, user.acts(), "the user's own tools/scripts")

		thief := user
		thief.key = ""
		require.Equal(t, []int{403, 403, 403, 403}, thief.acts())
		require.Equal(t, []int{403, 403, 403, 403}, thief.acts("Sec-Fetch-Site", "same-origin", "Vmop-Page-Key", "x"))
		require.Equal(t, http.StatusOK, thief.do(http.MethodGet, "/", "", "Sec-Fetch-Mode", "navigate").StatusCode)
		_, port, _ := net.SplitHostPort(user.at)
		thief.root = "http://127.0.0.1:" + port
		require.Equal(t, []int{421, 421, 421, 421}, thief.acts(), "the host that all servers of this computer have")
		program := caller{t: t, root: user.root, at: user.at}
		answer := program.do(http.MethodGet, "/api/v1/vms", "", "Authorization", "Bearer "+l.get("token"))
		require.Equal(t, http.StatusOK, answer.StatusCode)
		stop()
	}
}

// Users who can read a service's output, such as the journal, cannot log in with it.
func TestNoSecretIsPrintedWhereOthersRead(t *testing.T) {
	t.Parallel()
	l := newLocalPages(t)
	stop := l.start("--log-level", "debug")
	link := l.get("link")
	token := l.get("token")
	user := l.opens(link)
	user.acts()
	require.Equal(t, http.StatusForbidden, caller{t: t, root: user.root, at: user.at}.do(http.MethodGet,
		strings.TrimPrefix(link, user.root), "").StatusCode, "a second time")
	stop()
	said := l.said.String()
	require.Contains(t, said, "For a link to log in run: vmmanager local link\n")
	require.NotContains(t, said, "/link/")
	_, secret, _ := strings.Cut(link, "/link/")
	for _, secret := range []string{secret, token, user.cookie.Value, user.key} {
		require.NotEmpty(t, secret)
		require.NotContains(t, said, secret)
	}
}

// The next process has the same address and accepts the browser's session. Two processes can't run at the same time.
func TestTheAddressAndTheSessionStay(t *testing.T) {
	t.Parallel()
	l := newLocalPages(t)
	stop := l.start()
	user := l.opens(l.get("link"))
	out, err := l.command("--runner", "vmmanager").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "another process serves them; to log in there, run: vmmanager local link")
	stop()
	out, err = l.command("link").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "cannot ask for a link: the pages ")
	l.start()
	require.True(t, strings.HasPrefix(l.get("link"), user.root))
	require.Equal(t, http.StatusOK, user.do(http.MethodGet, "/api/v1/vms", "").StatusCode)
	for _, name := range []string{"sessions.json", "origin.json", "link.sock"} {
		info, err := os.Stat(filepath.Join(string(l.place()), name))
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o600), info.Mode().Perm(), name)
	}
	info, err := os.Stat(string(l.place()))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
}

// The socket for links answers only its user and root, even if others can open it.
func TestTheSocketForLinksRefusesOthers(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "l")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	place := localPlace(dir)
	d, err := newDoor(t.Context(), place, func(what string) (string, error) { return "the " + what, nil },
		slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- d.runDoor(t.Context()) }()
	answer, err := askAt(t.Context(), place, askLink)
	require.NoError(t, err)
	require.Equal(t, "the link", answer)

	require.NoError(t, os.Chmod(place.linkSocket(), 0o666))
	asked := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		if os.Geteuid() != 0 {
			d.owner++ // simulates another user
		} else if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			asked <- errno
			return
		}
		_, err := askAt(t.Context(), place, askLink)
		asked <- err
	}()
	require.ErrorContains(t, <-asked, "is neither root nor the user of the pages")
}

// Addresses are in 127.0.0.0/8 and avoid addresses in common use. For a common address, the host is a name.
func TestTheOriginOfThePages(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		o := newOrigin()
		a := o.Address.Addr().As4()
		require.True(t, a[0] == 127 && a[1] >= 16 && a[3] != 0 && a[3] != 255, o.Address)
		seen[o.Address.String()] = true
		require.Equal(t, o.Address.String(), o.hostWithPort(o.Address))
	}
	require.Greater(t, len(seen), 990)
}
