package runner_test

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/prepare"
	"vmop/test/wait"
	"vmop/vmstatus"
	"vmop/yamlfile"
)

// freePort returns a TCP port above 5900 that is free.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// securityTypes does the beginning of RFC 6143, section 7.1, and returns what a
// VNC server offers: 1 is no authentication, 2 a password.
func securityTypes(t *testing.T, network, address string) []byte {
	t.Helper()
	ctx, cancel := wait.Context(t.Context())
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(wait.Deadline()))
	version := make([]byte, 12)
	_, err = io.ReadFull(conn, version)
	require.NoError(t, err)
	_, err = conn.Write(version)
	require.NoError(t, err)
	types := make([]byte, 2)
	_, err = io.ReadFull(conn, types)
	require.NoError(t, err)
	require.Equal(t, byte(1), types[0], "one type is offered")
	return types[1:]
}

// canary is a password that is found wherever it gets to.
const canary = "cAnArY77"

// With a password beside the configuration the display asks for it, and it is
// found nowhere else.
func TestDisplayPassword(t *testing.T) {
	t.Parallel()
	v := newVM(t, "wrapped")
	v.write("display-password", canary+"\n")
	v.write("password-expiry", " never\n")
	port, spice := freePort(t), freePort(t)
	v.configure("wrapped", []string{"cloudInit: {}"}, "accelerator: tcg", "firmware: bios", "network: []", v.observed(),
		"powerdownTimeout: 0",
		"display: {outputs: 2, vnc: {port: "+port+"}, spice: {port: "+spice+
			", address: 127.0.0.1, usbRedirects: 3, streamingVideo: filter}}")
	v.runs()

	require.Equal(t, []byte{2}, securityTypes(t, "unix", v.path("run", "vnc.sock")))
	require.Equal(t, []byte{2}, securityTypes(t, "tcp", "127.0.0.1:"+port))
	var server struct {
		Enabled bool
		Auth    string
		Port    int
	}
	v.ask(&server, "query-spice", nil)
	require.True(t, server.Enabled)
	require.Equal(t, "spice", server.Auth, "tickets are asked for")
	require.Equal(t, spice, strconv.Itoa(server.Port))
	var chardevs []struct{ Label, Filename string }
	v.ask(&chardevs, "query-chardev", nil)
	require.Equal(t, 3, strings.Count(fmt.Sprint(chardevs), "-source"), "one for each USB redirection")
	argv := strings.Join(arguments(v.qemu()), " ")
	require.Contains(t, argv, "streaming-video=filter")
	require.Contains(t, argv, "max_outputs=2")
	require.Len(t, v.log.find("QMP command", "command", "set_password"), 3)
	require.Len(t, v.log.find("QMP command", "command", "expire_password"), 3)

	v.hides(canary)
	v.ends()
	v.hides(canary)
}

// hides requires that a secret is in no log, process, plan or file of the VM.
func (v *vm) hides(secret string) {
	v.t.Helper()
	require.NotContains(v.t, v.log.text(), secret, "in the log")
	for name, pid := range v.processes() {
		for _, file := range []string{"cmdline", "environ"} {
			text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
			require.NoError(v.t, err)
			require.NotContains(v.t, string(text), secret, "in %s of %s", file, name)
		}
	}
	prepared, err := prepare.Plan(v.t.Context(), v.options().Options)
	require.NoError(v.t, err)
	text, err := prepared.Plan.JSON()
	require.NoError(v.t, err)
	for _, form := range []string{
		string(text), prepared.Plan.Why(), prepared.Plan.Shell(),
		fmt.Sprintf("%+v %#v", prepared, *prepared),
	} {
		require.NotContains(v.t, form, secret, "in the plan")
	}
	require.NoError(v.t, filepath.WalkDir(v.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || filepath.Dir(path) == v.dir {
			return err
		}
		text, err := os.ReadFile(path)
		require.False(v.t, bytes.Contains(text, []byte(secret)), "in %s", path)
		return err
	}))
}

// Without a password no viewer is asked for one, and SPICE is where it is wanted.
func TestDisplayWithoutPassword(t *testing.T) {
	t.Parallel()
	spice := freePort(t)
	v := observe(t, "display: {vnc: {}, spice: {port: "+spice+", address: 127.0.0.1}}")
	require.Equal(t, []byte{1}, securityTypes(t, "unix", v.path("run", "vnc.sock")))
	var server struct{ Auth string }
	v.ask(&server, "query-spice", nil)
	require.Equal(t, "none", server.Auth)
	v.notLogged("QMP command", "command", "set_password")
	v.ends()
}

// A Secret for the password asks for one: a key that is misspelt doesn't show the
// screen to everybody.
func TestSecretWithoutPassword(t *testing.T) {
	t.Parallel()
	v := newVM(t, "bare")
	v.secret = "screen"
	v.write("password", canary)
	v.start()
	_, err := v.wait()
	require.EqualError(t, err, "the display's password in Secret screen: it is gone, or has no key display-password, and without a password anybody could see the screen")
	v.write("display-password", canary)
	v.write("password-expiry", "tomorrow")
	v.start()
	_, err = v.wait()
	require.ErrorContains(t, err, "the display's password in Secret screen: read "+v.path("password-expiry"))
	v.nothingLeft()
}

// A password file that cannot be meant is refused, and not quoted.
func TestWrongPasswordFiles(t *testing.T) {
	t.Parallel()
	for what, tt := range map[string]struct{ file, text, want string }{
		"an empty password":     {"display-password", "\n", "the password is empty"},
		"a line break":          {"display-password", canary + "\n" + canary, "control character"},
		"an expiry that is not": {"password-expiry", "tomorrow", `"tomorrow" is not a time of expiry`},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			v := newVM(t, "bare")
			v.write("display-password", canary)
			v.write(tt.file, tt.text)
			v.start()
			_, err := v.wait()
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, v.path(tt.file))
			require.NotContains(t, err.Error(), canary)
			v.nothingLeft()
		})
	}
}

// A display that others reach and that has no password is refused, unless the
// configuration asks for it by a key of its own; then the status says so. A password, or
// an address of this computer only, is enough.
func TestADisplayForEverybodyIsAskedForTwice(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard")
	spice := freePort(t)
	try := func(display string) (*prepare.VM, error) {
		v.configure("standard", nil, "accelerator: tcg", "firmware: bios", "network: []", "powerdownTimeout: 0",
			"display: {"+display+"}")
		return prepare.Plan(t.Context(), v.options().Options)
	}
	for display, key := range map[string]string{
		"spice: {port: " + spice + "}":                   "vm.display.spice",
		"spice: {address: 192.0.2.1}":                    "vm.display.spice",
		"vnc: {port: 5999, address: '::'}":               "vm.display.vnc",
		"withoutPassword: false, spice: {address: host}": "vm.display.spice",
	} {
		_, err := try(display)
		var faults yamlfile.Faults
		require.ErrorAs(t, err, &faults, display)
		require.Equal(t, key, faults[0].Path)
		require.Equal(t, "write a password to the file display-password beside the configuration, or set "+key+
			".address: 127.0.0.1, or vm.display.withoutPassword: true", faults[0].Hint)
	}
	for _, display := range []string{"spice: {address: 127.0.0.1}", "vnc: {port: 5999}", "vnc: {}"} {
		vm, err := try(display)
		require.NoError(t, err, display)
		require.Empty(t, vm.Unprotected())
	}
	asked := "withoutPassword: true, spice: {port: " + spice + "}"
	v.write("display-password", "pw")
	vm, err := try("spice: {}")
	require.NoError(t, err)
	require.Empty(t, vm.Unprotected())
	require.NoError(t, os.Remove(v.path("display-password")))
	_, err = try(asked)
	require.NoError(t, err)
	v.runs()
	const said = "whoever reaches it uses the screen without a password: vm.display.spice on *:"
	v.logged(said + spice)
	require.Contains(t, v.status().Condition(vmstatus.ConditionRunning).Message, said+spice)
	v.ends()
}
