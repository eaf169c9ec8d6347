package main

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/internal/outbound"
	"vmop/test/wait"
)

// TestMain lets the test binary act as the program.
func TestMain(m *testing.M) {
	switch os.Getenv("VMIMPORT") {
	case "":
	case "as in production":
		main()
		os.Exit(0)
	default:
		here := netip.MustParseAddr("127.0.0.1")
		runProgram(outbound.Rule{Exempt: func(to netip.AddrPort) bool { return to.Addr() == here }})
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// ran is a running or finished program.
type ran struct {
	*exec.Cmd
	out, log *transcript
	ended    chan struct{}
}

// transcript is the output of a program. It can be read while the program runs.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// start starts the program, which may connect to servers of tests.
func start(t testing.TB, stdin io.Reader, args ...string) *ran {
	t.Helper()
	return startAs(t, "with servers of tests", stdin, args...)
}

func startAs(t testing.TB, what string, stdin io.Reader, args ...string) *ran {
	t.Helper()
	r := &ran{exec.Command(os.Args[0], args...), &transcript{}, &transcript{}, make(chan struct{})}
	r.Env = append(os.Environ(), "VMIMPORT="+what)
	r.Stdin, r.Stdout, r.Stderr = stdin, r.out, r.log
	require.NoError(t, r.Start())
	go func() {
		_ = r.Wait() // the state contains the result
		close(r.ended)
	}()
	t.Cleanup(func() {
		_ = r.Process.Kill()
		<-r.ended
	})
	return r
}

// end waits for the end, and returns the outcome and the exit code.
func (r *ran) end(t testing.TB) (outcome, int) {
	t.Helper()
	wait.Receive(t, r.ended, "it does not end")
	var o outcome
	if text := r.out.String(); text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &o), text)
	}
	return o, r.ProcessState.ExitCode()
}

func disk() []byte {
	data := make([]byte, 4<<20)
	random := rand.NewChaCha8([32]byte{2})
	_, _ = random.Read(data[1<<20 : 2<<20])
	return data
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func TestImport(t *testing.T) {
	t.Parallel()
	data, dir := disk(), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"username": "me\n", "password": "secret-word\n", "log": "old text"} {
		require.NoError(t, os.WriteFile(at(name), []byte(text), 0o600))
	}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "me" || password != "secret-word" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write(data)
	})
	sum := sha256.Sum256(data)
	checksum := "sha256:" + hex.EncodeToString(sum[:])
	r := start(t, nil, "import", "--url", url, "--target", at("disk.img"), "--auth-folder", dir, "--checksum", checksum,
		"--size", "10000384", "--termination-log", at("log"))
	o, code := r.end(t)
	require.Zero(t, code, r.log)
	require.Equal(t, "Imported", o.Reason)
	require.Equal(t, "a disk of 4 MiB was imported (raw)", o.Message)
	require.Equal(t, checksum, o.Checksum)
	got, err := os.ReadFile(at("disk.img"))
	require.NoError(t, err)
	require.Len(t, got, 10000384)
	require.True(t, bytes.HasPrefix(got, data))
	said, err := os.ReadFile(at("log"))
	require.NoError(t, err)
	require.JSONEq(t, r.out.String(), string(said))
	require.NotContains(t, r.log.String()+r.out.String(), "secret-word")

	r = start(t, nil, "import", "--url", url, "--target", at("disk.img"), "--termination-log", at("log"))
	o, code = r.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "SourceUnauthorized", o.Reason)
	require.Contains(t, o.Message, "401 Unauthorized")
	said, err = os.ReadFile(at("log"))
	require.NoError(t, err)
	require.JSONEq(t, r.out.String(), string(said))
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"import"},
		{"import", "--url", "http://x/y"},
		{"import", "--target", "x", "--url", "http://x/y", "--upload"},
		{"import", "--target", "x", "--url", "http://x/y", "--max-time", "x"},
		{"receive"},
		{"receive", "--size", "5", "--length", "5"},
		{"receive", "--checksum", "sha256:00", "--id", "a"},
		{"clone", "x"},
		{"inport"},
	} {
		r := start(t, nil, args...)
		_, code := r.end(t)
		require.Equal(t, 2, code, "%s: %s", args, r.log)
		require.Contains(t, r.log.String(), "vmimport: ")
	}
}

// The manager sees the progress, and after a signal no files are left.
func TestProgressAndSignals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10485760")
		_, _ = w.Write(disk())
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	r := start(t, nil, "import", "--url", url, "--target", filepath.Join(dir, "disk.img"), "--listen", "127.0.0.1:0",
		"--log-format", "json")
	address := r.await(t, "serving the progress", "address")
	wait.Until(t, func() bool {
		s := progressAt(t, address)
		return s.Phase == "Transferring" && s.Total == 10<<20 && s.Bytes == 4<<20 && s.Format == "raw" && s.Percent > 38
	})
	require.NoError(t, r.Process.Signal(syscall.SIGTERM))
	o, code := r.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "Canceled", o.Reason)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// await waits for a line of the log, and returns the value of a key.
func (r *ran) await(t *testing.T, message, key string) (value string) {
	t.Helper()
	wait.Until(t, func() bool {
		for line := range strings.Lines(r.log.String()) {
			fields := map[string]any{}
			if json.Unmarshal([]byte(line), &fields) == nil && fields["msg"] == message {
				value = fmt.Sprint(fields[key])
				return true
			}
		}
		return false
	})
	return value
}

func progressAt(t *testing.T, address string) (s state) {
	t.Helper()
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/progress", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&s))
	return s
}

// A broken upload or invalid image can be sent again. An image that is too large ends the import.
func TestUpload(t *testing.T) {
	t.Parallel()
	data := disk()
	dir, err := os.MkdirTemp("", "u") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket, target := filepath.Join(dir, "socket"), filepath.Join(dir, "disk.img")
	upload := func(more ...string) *ran {
		r := start(t, nil, append([]string{
			"import", "--upload", "--target", target, "--socket", socket, "--listen", "127.0.0.1:0",
			"--log-format", "json",
		}, more...)...)
		r.await(t, "phase", "phase")
		return r
	}
	r := upload()
	address := r.await(t, "serving the progress", "address")
	require.EqualValues(t, "WaitForUserUpload", progressAt(t, address).Phase)
	size := fmt.Sprint(len(data))

	half := start(t, bytes.NewReader(data[:2<<20]), "receive", "--socket", socket, "--size", size)
	o, code := half.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "TransferBroken", o.Reason)
	require.Contains(t, o.Message, "ended after 2097152 of 4194304 bytes")
	wait.Until(t, func() bool {
		s := progressAt(t, address)
		return s.Phase == "WaitForUserUpload" && s.Reason == "TransferBroken"
	})

	killed := start(t, neverEnds{}, "receive", "--socket", socket, "--size", "1000000000")
	wait.Until(t, func() bool { return progressAt(t, address).Bytes > 0 })
	require.NoError(t, killed.Process.Kill())

	whole := start(t, bytes.NewReader(data), "receive", "--socket", socket, "--size", size)
	o, code = whole.end(t)
	require.Zero(t, code, whole.log)
	require.Equal(t, "Imported", o.Reason)
	o, code = r.end(t)
	require.Zero(t, code)
	require.Equal(t, "Imported", o.Reason)
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))

	r = upload("--size", "1048576")
	page := start(t, strings.NewReader("<html>"+strings.Repeat(" ", 1<<20)), "receive", "--socket", socket,
		"--size", "1048582")
	o, code = page.end(t)
	require.Equal(t, 1, code)
	require.Equal(t, "UnsupportedFormat", o.Reason)
	large := start(t, bytes.NewReader(data), "receive", "--socket", socket, "--size", size)
	for _, r := range []*ran{large, r} {
		o, code = r.end(t)
		require.Equal(t, 1, code)
		require.Equal(t, "ImageTooLarge", o.Reason)
	}
}

// An import runs until its sender has received the answer and has ended: in a container, the sender would end with it.
func TestAnUploadIsAnsweredBeforeTheEnd(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "u") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "socket")
	r := start(t, nil, "import", "--upload", "--target", filepath.Join(dir, "disk.img"), "--socket", socket,
		"--log-format", "json")
	r.await(t, "phase", "phase")
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	data := disk()
	_, err = fmt.Fprintf(conn, "{\"size\": %d}\n", len(data))
	require.NoError(t, err)
	_, err = conn.Write(data)
	require.NoError(t, err)
	require.NoError(t, conn.(*net.UnixConn).CloseWrite())
	answer, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, answer, "Imported")
	<-time.After(500 * time.Millisecond) // a slow sender
	require.NoError(t, r.Process.Signal(syscall.Signal(0)), "the import has ended")
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.Process.Pid))
	require.NoError(t, err)
	require.NotContains(t, string(state), ") Z ", "the import has ended")
	require.NoError(t, conn.Close())
	o, code := r.end(t)
	require.Zero(t, code)
	require.Equal(t, "Imported", o.Reason)
}

// neverEnds is a reader without end.
type neverEnds struct{}

func (neverEnds) Read(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return copy(p, "data"), nil
}

// A clone is an exact copy of everything that a guest has written, here the header of an overlay.
func TestClone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	data := append([]byte("QFI\xfb\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x68\x00\x00\x00\x04"), disk()...)
	data = data[:4<<20]
	require.NoError(t, os.WriteFile(from, data, 0o600))
	require.NoError(t, os.Truncate(from, 1<<30))
	first := start(t, nil, "clone", "--length", "5", from, to)
	o, code := first.end(t)
	require.Zero(t, code, first.log)
	require.EqualValues(t, 5, o.VirtualSize)
	r := start(t, nil, "clone", from, to)
	o, code = r.end(t)
	require.Zero(t, code, r.log)
	require.EqualValues(t, "raw", o.Format)
	require.EqualValues(t, 1<<30, o.VirtualSize)
	got, err := os.ReadFile(to)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(got, data))
	var st syscall.Stat_t
	require.NoError(t, syscall.Stat(to, &st))
	require.LessOrEqual(t, st.Blocks*512, int64(8<<20), "holes are holes")
}

// A killed import leaves no file with the name of the disk, and its leftovers don't affect the next import.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir, data := t.TempDir(), append(disk(), disk()...)
	first := true
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(data)))
		if first {
			first = false
			_, _ = w.Write(data[:7<<20])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = w.Write(data)
	})
	target := filepath.Join(dir, "disk.img")
	r := start(t, nil, "import", "--url", url, "--target", target)
	wait.Until(t, func() bool {
		info, err := os.Stat(target + ".part")
		return err == nil && info.Size() > 0
	})
	require.NoError(t, r.Process.Kill())
	r.end(t)
	require.NoFileExists(t, target)
	_, code := start(t, nil, "import", "--url", url, "--target", target).end(t)
	require.Zero(t, code)
	got, err := os.ReadFile(target)
	require.NoError(t, err)
	require.True(t, bytes.Equal(data, got))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

// No URL, container image, redirect or name makes an import read from an internal address. The test permits the first
// server of a redirect; the production program permits none.
func TestImportsReachNoInternalAddress(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	secret := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write(disk())
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(secret, "http://"), ":")
	to302 := func(host string) string {
		return serve(t, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://"+host+":"+port+"/", http.StatusFound)
		})
	}
	const production, tests = "as in production", "with servers of tests"
	for name, c := range map[string]struct {
		program string
		args    []string
	}{
		"address":              {production, []string{"--url", secret}},
		"name":                 {production, []string{"--url", "http://localhost:" + port}},
		"mapped address":       {production, []string{"--url", "http://[::ffff:127.0.0.1]:" + port}},
		"unspecified address":  {production, []string{"--url", "http://0.0.0.0:" + port}},
		"container image":      {production, []string{"--image", "127.0.0.1:" + port + "/a:1", "--insecure"}},
		"redirect to metadata": {tests, []string{"--url", to302("169.254.169.254")}},
		"redirect to loopback": {tests, []string{"--url", to302("127.0.0.2")}},
		"private address":      {production, []string{"--url", "http://10.0.0.1/", "--no-private-addresses"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			target := filepath.Join(t.TempDir(), "disk.img")
			o, code := startAs(t, c.program, nil, append([]string{"import", "--target", target}, c.args...)...).end(t)
			require.Equal(t, 1, code)
			require.Equal(t, "AddressRefused", o.Reason, o.Message)
			require.NoFileExists(t, target)
		})
	}
	t.Cleanup(func() { require.Zero(t, asked.Load()) })
}
