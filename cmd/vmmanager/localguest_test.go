package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/guest"
	"vmop/test/invariants"
	"vmop/test/program"
	"vmop/test/tier"
	"vmop/test/wait"
)

// reads sends a request to the JSON interface, and returns the status code and the answer.
func (c caller) reads(method, path, body string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, "http://"+c.at+"/api/v1"+path, strings.NewReader(body))
	require.NoError(c.t, err)
	r.Host = strings.TrimPrefix(c.root, "http://")
	r.AddCookie(c.cookie)
	r.Header.Set("Vmop-Page-Key", c.key)
	answer, err := http.DefaultTransport.RoundTrip(r)
	require.NoError(c.t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(c.t, err)
	return answer.StatusCode, string(text)
}

// changes sends a request that must succeed.
func (c caller) changes(method, path, body string) {
	c.t.Helper()
	code, text := c.reads(method, path, body)
	require.Less(c.t, code, 300, "%s %s: %s", method, path, text)
}

// awaitVM waits until a VM is in a state.
func (c caller) awaitVM(name, what string, is func(vm *fleet.VM) bool) {
	c.t.Helper()
	last := ""
	wait.Until(c.t, func() bool {
		var code int
		var vm fleet.VM
		if code, last = c.reads("GET", "/vms/"+name, ""); code != http.StatusOK {
			return false
		}
		require.NoError(c.t, json.Unmarshal([]byte(last), &vm))
		require.Empty(c.t, vm.Problems, "%s", last)
		return is(&vm)
	}, "%s", what)
}

// A running guest gets and releases a disk over HTTP, its disks are captured, and restored when it has ended. The VM is
// cloned, and its CD drive gets an uploaded file.
func TestAGuestIsChangedOverHTTP(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	l := newLocalPages(t)
	t.Cleanup(func() {
		for _, pids := range invariants.Processes(t, l.home) {
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			}
		}
	})
	runner := filepath.Join(l.home, "bin", "vmrunner")
	require.NoError(t, os.Mkdir(filepath.Dir(runner), 0o700))
	require.NoError(t, program.Build(t.Context(), runner, "vmop/cmd/vmrunner"))
	image := guest.Tiny(t)
	guest.TakePlace(t)
	vms, disk := filepath.Join(l.home, "vms"), filepath.Join(l.home, "root.img")
	first, second := bytes.Repeat([]byte("1"), 1<<20), bytes.Repeat([]byte("2"), 1<<20)
	require.NoError(t, os.WriteFile(disk, first, 0o600))
	config := fmt.Sprintf(`"/Runner":
  vm:
    name: web
    accelerator: tcg
    firmware: bios
    network: []
    maximumRam: 256 MiB
    kernel: {image: %s, initrd: %s, commandLine: %s}
    drives:
    - {type: raw, file: %s}
    - {type: ide-cd}
`, image.Kernel, image.Initrd, guest.CommandLine, disk)
	require.NoError(t, os.WriteFile(filepath.Join(vms, "web.yaml"), []byte(config), 0o600))
	l.start("--folder", vms, "--runner", runner)
	link, err := l.command("link", "--folder", vms).CombinedOutput()
	require.NoError(t, err, "%s", link)
	user := l.opens(strings.TrimSpace(string(link)))

	user.changes("POST", "/vms/web/start", "")
	user.awaitVM("web", "it runs", func(vm *fleet.VM) bool { return vm.State == fleet.Running })
	user.changes("POST", "/vms/web/disks", `{"size": "8 MiB"}`)
	user.awaitVM("web", "the guest has the disk", func(vm *fleet.VM) bool {
		return len(vm.Volumes) == 3 && vm.Volumes[2].Attachment == "disk2" && vm.Volumes[2].State == ""
	})
	user.changes("PATCH", "/vms/web/disks/disk2", `{"size": "12 MiB"}`)
	user.awaitVM("web", "it has grown", func(vm *fleet.VM) bool {
		return vm.Activity == "" && vm.Volumes[2].Size == 12<<20
	})
	code, text := user.reads("POST", "/vms/web/snapshots", `{"name": "first"}`)
	require.Equal(t, http.StatusConflict, code)
	require.Contains(t, text, "detach it, or restart the VM with it")
	user.changes("DELETE", "/vms/web/disks/disk2", "")
	user.awaitVM("web", "the guest has released it", func(vm *fleet.VM) bool {
		return len(vm.Volumes) == 2 && vm.Activity == ""
	})
	user.changes("POST", "/vms/web/snapshots", `{"name": "first"}`)
	user.awaitVM("web", "the snapshot", func(vm *fleet.VM) bool {
		return len(vm.Snapshots) == 1 && vm.Activity == ""
	})
	code, text = user.reads("POST", "/vms/web/snapshots/first/restore", "")
	require.Equal(t, http.StatusConflict, code)
	require.Contains(t, text, "the VM is running")

	const upload = "/disks/UploadedFile/a.iso/data?upload=x&size=4096&from="
	user.changes("PUT", upload+"0", strings.Repeat("c", 1000))
	code, text = user.reads("PUT", upload+"0", "")
	require.Equal(t, http.StatusOK, code)
	require.JSONEq(t, `{"state": "Continue", "at": 1000}`, text)
	user.changes("PUT", upload+"1000", strings.Repeat("c", 3096))
	iso := filepath.Join(l.home, ".local/share/vmrunner-media/a.iso")
	require.FileExists(t, iso)
	user.changes("PUT", "/vms/web/drives/drive%201", `{"medium": "`+iso+`"}`)
	user.awaitVM("web", "the CD", func(vm *fleet.VM) bool { return vm.Drives[0].Medium == iso })

	user.changes("POST", "/vms/web/cards", `{"network": "user"}`)
	card := ""
	user.awaitVM("web", "the network card", func(vm *fleet.VM) bool {
		for _, c := range vm.Cards {
			card = c.Key
		}
		return card != "" && vm.Activity == ""
	})
	user.changes("PATCH", "/vms/web/cards/"+card, `{"up": false}`)
	user.awaitVM("web", "the cable is unplugged", func(vm *fleet.VM) bool { return vm.Cards[0].Down })
	user.changes("DELETE", "/vms/web/cards/"+card, "")
	user.awaitVM("web", "the card is gone", func(vm *fleet.VM) bool {
		return len(vm.Cards) == 0 && vm.Activity == "" && len(vm.RestartAwaitingChanges) == 0
	})

	user.changes("POST", "/vms/web/kill", "")
	user.awaitVM("web", "it has ended", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })
	require.NoError(t, os.WriteFile(disk, second, 0o600))
	exported := filepath.Join(l.home, "exported.img")
	user.changes("POST", "/vms/web/disks/root/export", `{"file": "`+exported+`", "format": "raw"}`)
	wait.Until(t, func() bool {
		have, err := os.ReadFile(exported)
		return err == nil && bytes.Equal(second, have)
	}, "the copy of the disk")
	user.awaitVM("web", "the copy is complete", func(vm *fleet.VM) bool { return vm.Activity == "" })
	user.changes("POST", "/vms/web/clone", `{"name": "now"}`)
	user.changes("POST", "/vms/web/clone", `{"name": "then", "snapshot": "first"}`)
	for name, content := range map[string][]byte{"now": second, "then": first} {
		user.awaitVM(name, "the clone", func(vm *fleet.VM) bool { return vm.State == fleet.Stopped })
		have, err := os.ReadFile(filepath.Join(l.home, ".local/share/vmrunner", name, "root.img"))
		require.NoError(t, err)
		require.True(t, bytes.Equal(content, have), name)
	}
	user.changes("POST", "/vms/web/snapshots/first/restore?definition=true", "")
	wait.Until(t, func() bool {
		have, err := os.ReadFile(disk)
		return err == nil && bytes.Equal(first, have)
	}, "the disk is restored")
	user.awaitVM("web", "the definition is restored", func(vm *fleet.VM) bool {
		return vm.Activity == "" && vm.Drives[0].Medium == ""
	})
	user.changes("DELETE", "/vms/now?data=true", "")
	require.NoDirExists(t, filepath.Join(l.home, ".local/share/vmrunner/now"))
}
