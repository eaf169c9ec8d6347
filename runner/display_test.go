package runner_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/internal/yamlfile"
	"vmop/runner/prepare"
	"vmop/test/ports"
	"vmop/vmstatus"
)

// canary is a password that the tests search for everywhere.
const canary = "cAnArY77"

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

// A Secret without the key for the password prevents the start, so that a misspelled key doesn't open the screen to
// everybody.
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

// A display without a password at a non-local address is refused, unless an extra key of the configuration permits it;
// the status then reports it. A password or a local address is sufficient.
func TestADisplayForEverybodyIsAskedForTwice(t *testing.T) {
	t.Parallel()
	v := newVM(t, "standard")
	spice := strconv.Itoa(ports.Reserve(t))
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
		require.Equal(t, "write a password to the file display-password next to the configuration, or set "+key+
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
	const said = "anyone who can reach it can use the screen without a password: vm.display.spice on *:"
	v.logged(said + spice)
	require.Contains(t, v.status().Condition(vmstatus.ConditionRunning).Message, said+spice)
	v.ends()
}
