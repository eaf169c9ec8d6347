package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"vmop/runner/control"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/wait"
)

// Users can manage VMs by name. The VMs run in a real QEMU.
func TestNamedVMs(t *testing.T) {
	t.Parallel()
	bin := alone(t, build(t))
	root, err := os.MkdirTemp("", "n") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, pids := range invariants.Processes(t, root) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // left by a failed script; it may have ended
			}
		}
		require.NoError(t, os.RemoveAll(root))
	})
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "named"), WorkdirRoot: root,
		Setup: func(env *testscript.Env) error {
			played := filepath.Join(env.WorkDir, "path") // the script's own programs
			env.Setenv("PATH", bin+":"+played+":"+env.Getenv("PATH"))
			env.Setenv("TMPDIR", env.WorkDir)
			image := guest.Tiny(t)
			env.Setenv("KERNEL", image.Kernel)
			env.Setenv("INITRD", image.Initrd)
			if !testing.Short() {
				env.Setenv("DEBIAN", guest.Debian(t))
			}
			for name, folder := range map[string]string{
				"XDG_CONFIG_HOME": "config", "XDG_DATA_HOME": "data", "XDG_RUNTIME_DIR": "r",
				"XDG_CACHE_HOME": "cache",
			} {
				env.Setenv(name, filepath.Join(env.WorkDir, folder))
			}
			programs, err := filepath.Glob(filepath.Join(played, "*"))
			for _, program := range programs {
				err = errors.Join(err, os.Chmod(program, 0o755))
			}
			return errors.Join(err, os.MkdirAll(filepath.Join(env.WorkDir, "r"), 0o700))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "ready": ready, "says": says, "fetch": fetch, "publish": publish,
			"publish-debian": publishDebian, "take-place": takePlace, "eventually": awaitOutput,
		},
	})
}

// eventually PATTERN PROGRAM ARGUMENT... runs a program until its output matches a regular expression; with !, until it
// doesn't.
func awaitOutput(ts *testscript.TestScript, neg bool, args []string) {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	for end := wait.Deadline(); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if pattern.MatchString(ts.ReadFile("stdout")) != neg {
			return
		}
	}
	ts.Fatalf("%s: waited in vain for %q", args[1], args[0])
}

// take-place waits for a place for the guests of a script, and holds it until the script's end.
func takePlace(ts *testscript.TestScript, _ bool, _ []string) {
	place, err := guest.LockPlace(context.Background())
	ts.Check(err)
	ts.Defer(func() { _ = place.Close() })
}

// ready NAME waits until a tiny guest is ready.
func ready(ts *testscript.TestScript, neg bool, args []string) {
	says(ts, neg, []string{args[0], " READY"})
}

// says NAME TEXT waits until a guest has written a text to its console.
func says(ts *testscript.TestScript, _ bool, args []string) {
	awaitText(ts, args[0], args[1])
}

// awaitText waits until a guest has written a text to its console.
func awaitText(ts *testscript.TestScript, name, text string) {
	client, err := control.Dial(context.Background(), ts.MkAbs("r/vmrunner/"+name+"/control.sock"))
	ts.Check(err)
	conn, err := client.Console(context.Background(), control.Watch)
	ts.Check(err)
	defer conn.Close()
	ts.Check(conn.SetReadDeadline(wait.Deadline()))
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		if strings.Contains(lines.Text(), text) {
			return
		}
	}
	ts.Fatalf("the guest has not written %q: %v", text, lines.Err())
}

// publish NAME serves a disk image that a BIOS can boot, and adds it to the user's list of images.
func publish(ts *testscript.TestScript, _ bool, args []string) {
	raw, qcow2 := ts.MkAbs("published"), ts.MkAbs("published.qcow2")
	ts.Check(os.WriteFile(raw, append(guest.Sector(), make([]byte, 2<<20-512)...), 0o600))
	ts.Check(ts.Exec("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, qcow2))
	publishFile(ts, args[0], qcow2)
}

// publishFile serves an image, and adds it to the user's list of images.
func publishFile(ts *testscript.TestScript, name, file string) {
	sum := sha256.New()
	image, err := os.Open(file)
	ts.Check(err)
	defer image.Close()
	_, err = io.Copy(sum, image)
	ts.Check(err)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/disk.qcow2":
			http.ServeFile(w, r, file)
		case "/SHA256SUMS":
			fmt.Fprintf(w, "%x  disk.qcow2\n", sum.Sum(nil))
		default:
			http.NotFound(w, r)
		}
	}))
	ts.Defer(server.Close)
	list := fmt.Sprintf("images:\n- {name: %s, url: %[2]s/disk.qcow2, checksums: SHA256SUMS}\n"+
		"- {name: ours/gone, url: %[2]s/disk.qcow2, checksums: GONE}\n", name, server.URL)
	ts.Check(os.MkdirAll(ts.MkAbs("config/vmrunner"), 0o700))
	ts.Check(os.WriteFile(ts.MkAbs("config/vmrunner/images.yaml"), []byte(list), 0o600))
}

// publish-debian NAME serves a Debian with cloud-init.
func publishDebian(ts *testscript.TestScript, _ bool, args []string) {
	publishFile(ts, args[0], ts.Getenv("DEBIAN"))
}

// fetch NAME PORT downloads the page of a tiny guest twice through port-forward, and interrupts port-forward.
func fetch(ts *testscript.TestScript, _ bool, args []string) {
	program, err := exec.LookPath(filepath.Join(strings.Split(ts.Getenv("PATH"), ":")[0], "vmrunner"))
	ts.Check(err)
	cmd := exec.Command(program, "port-forward", args[0], args[1])
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"),
		"XDG_RUNTIME_DIR="+ts.Getenv("XDG_RUNTIME_DIR"))
	said, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	line, err := bufio.NewReader(said).ReadString('\n')
	ts.Check(err)
	address, _, _ := strings.Cut(line, " is port ")
	for range 2 {
		page, err := http.Get("http://" + address)
		ts.Check(err)
		text, err := io.ReadAll(page.Body)
		ts.Check(errors.Join(err, page.Body.Close()))
		if string(text) != "hello from tiny\n" {
			ts.Fatalf("the page is %q", text)
		}
	}
	ts.Check(cmd.Process.Signal(os.Interrupt))
	ts.Check(cmd.Wait())
}

// On a terminal, create asks for everything that no flag specifies.
func TestCreateAsks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, ".ssh"), 0o700))
	key := []byte("ssh-ed25519 AAAA joe@here\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".ssh/id_ed25519.pub"), key, 0o600))
	keys, user := openPTY(t)
	vmrunner := filepath.Join(alone(t, build(t)), "vmrunner")
	cmd := exec.CommandContext(t.Context(), vmrunner, "create", "web", "--system=false",
		"--network=user")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+filepath.Join(dir, "data"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = user, user, user
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	for _, talk := range [][2]string{
		{"VM type [standard]: ", "nonsense"},
		{"VM type [standard]: ", "windows"},
		{"CPUs [", "none"},
		{"CPUs [", "3"},
		{"RAM [", "much"},
		{"RAM [", "2 GiB"},
		{"Image of the disk, such as debian/12 [none]: ", "debain/12"},
		{"did you mean debian/12?", ""},
		{"[64 GiB]: ", "1 GiB"},
		{"CD: path or URL [none]: ", "/nowhere.iso"},
		{"CD: path or URL [none]: ", ""},
		{"Set options of the VM type windows? [no]: ", "yes"},
		{"panic [shutdown]: ", "never"},
		{"(it can be shutdown, ", "none"},
		{"watchdog [none]: ", ""},
		{"hotplugPorts [8]: ", "7"},
		{"can't be 7 (8 to 24)", ""},
		{"hostCaches [false]: ", ""},
		{"smt [false]: ", ""},
		{"hugePages [none]: ", ""},
		{"sharedMemory [false]: ", ""},
		{"numaNodes [1]: ", ""},
		{"iommu [false]: ", ""},
		{"vsock [false]: ", ""},
		{"vsockCid [none]: ", ""},
		{"secureBoot [true]: ", "false"},
		{"tpm [true]: ", "false"},
	} {
		see(t, keys, talk[0])
		_, err := io.WriteString(keys, talk[1]+"\r")
		require.NoError(t, err)
	}
	for range 16 { // the remaining questions, and more
		_, err := io.WriteString(keys, "\r")
		require.NoError(t, err)
	}
	see(t, keys, "start it by: vmrunner start web")
	require.NoError(t, cmd.Wait())
	text, err := os.ReadFile(filepath.Join(dir, "vmrunner/web.yaml"))
	require.NoError(t, err)
	for _, line := range []string{
		"vmType: windows", "currentCpus: 3", "maximumRam: 2 GiB", "size: 1 GiB", "- type: user",
		"tpm: false", "panic: none",
		"secureBoot: false", "vnc: {}",
	} {
		require.Contains(t, string(text), line+"\n")
	}
}

// With an image, a CD or a disk, create asks nothing on a terminal.
func TestCreateWithAnImageAsksNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, user := openPTY(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(alone(t, build(t)), "vmrunner"), "create", "web",
		"--system=false", "--network=user", "--image=debian/12")
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+filepath.Join(dir, "data"))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = user, user, user
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	see(t, keys, "start it by: vmrunner start web")
	require.NoError(t, cmd.Wait())
}
