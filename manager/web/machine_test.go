package web

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
	"vmop/test/wait"
)

// onOneComputer returns a play with VMs that can be changed like the VMs of one computer.
func onOneComputer(t *testing.T) *play {
	t.Helper()
	web, desk := sample("web", fleet.Running), sample("desk", fleet.Stopped)
	for _, vm := range []*fleet.VM{web, desk} {
		vm.Node, vm.Labels = "", nil
		vm.Volumes = []fleet.Volume{
			{
				Kind: fleet.FileDisk, Name: "/home/joe/.local/share/vmrunner/" + vm.Name + "/disk.img", Size: 20 << 30,
				Stored: 3 << 30, Format: "raw", Source: "debian/12", Detaches: "disk", Grows: "disk", Exports: "disk",
			},
			{Kind: fleet.CDDrive, Name: "drive 0", Source: "debian.iso"},
		}
		vm.Cards = []fleet.Card{
			{Key: "52:54:00:00:00:01", MAC: "52:54:00:00:00:01", Network: "user"},
			{Key: "network[1]", Network: "tap", Bridge: "br<1>", Down: true},
		}
		vm.Snapshots = []fleet.Snapshot{
			{Name: "before-upgrade", State: "Ready", At: then, Consistent: new(true), Stored: 2 << 30},
			{
				Name: "first", State: "Ready", At: then, Consistent: new(false), Reason: fleet.DisksOmitted,
				Message: "without <b>nbd</b>", Advice: "copy <b>nbd</b> there",
			},
		}
		vm.Autostart = &fleet.Autostart{On: vm == web}
	}
	web.Activity = "copying the disks for web-2: 40 %"
	p := newPlay(t, web, desk)
	p.machines = &machines{of: p.stage, local: true}
	p.store(
		fleet.Volume{
			Kind: fleet.UploadedFile, Name: "debian-13.iso", Size: 700 << 20, State: "Ready", Added: then,
			Source: "/home/joe/.local/share/vmrunner-media/debian-13.iso", UsedBy: []string{"web"},
		},
		fleet.Volume{
			Kind: fleet.UploadedFile, Name: "half.iso", Size: 1 << 30, State: "WaitForUserUpload", Progress: "45%",
		},
		fleet.Volume{
			Kind: fleet.CachedImage, Name: "debian-12-0123456789ab", Size: 3 << 30, Stored: 900 << 20, State: "Ready",
			Source: "debian/12, https://cloud.debian.org/debian-12.qcow2", Added: then, LastUse: then,
		},
		fleet.Volume{
			Kind: fleet.DeletedVMData, Name: "old", Size: 8 << 30, Stored: 1 << 30,
			Source: "/home/joe/.local/share/vmrunner/old", Contents: "disk.img (8 GiB), <b>2 snapshots</b>",
		},
	)
	p.disks.local = true
	return p
}

// The page of a VM and the JSON interface change its disks, snapshots and autostart, and clone, rename and delete it.
func TestChangesOfOneComputer(t *testing.T) {
	t.Parallel()
	p := onOneComputer(t)
	for _, c := range []struct{ method, path, body, did string }{
		{"POST", "/vms/web/attach", "disk=/srv/data.qcow2", "attaches /srv/data.qcow2 to web"},
		{"POST", "/vms/web/attach", "size=2,5+GiB", "attaches 2684354560 to web"},
		{
			"POST", "/api/v1/vms/web/disks", `{"file": "/srv/a.img", "size": "1 GiB"}`,
			"attaches /srv/a.img 1073741824 to web",
		},
		{"POST", "/vms/web/grow", "disk=disk&size=30+GiB", "grows disk of web to 32212254720"},
		{"PATCH", "/api/v1/vms/web/disks/disk", `{"size": "30 GiB"}`, "grows disk of web to 32212254720"},
		{"POST", "/vms/web/detach", "disk=disk", "detaches disk from web"},
		{"POST", "/vms/web/medium", "drive=drive+0&medium=debian.iso&eject=yes", `insert web drive 0 ""`},
		{
			"POST", "/vms/desk/export", "disk=disk&file=+/srv/a.qcow2&format=qcow2",
			"copies disk of desk to /srv/a.qcow2 as qcow2",
		},
		{
			"POST", "/api/v1/vms/desk/disks/disk/export", `{"file": "/srv/a.img", "format": "raw"}`,
			"copies disk of desk to /srv/a.img as raw",
		},
		{"POST", "/vms/web/cards", "network=tap&bridge=+br1", "attaches a card of tapbr1 to web"},
		{"POST", "/api/v1/vms/web/cards", `{"network": "user"}`, "attaches a card of user to web"},
		{"POST", "/vms/web/cards/detach", "card=network[1]", "detaches the card network[1] from web"},
		{"DELETE", "/api/v1/vms/web/cards/52:54:00:00:00:01", "", "detaches the card 52:54:00:00:00:01 from web"},
		{"POST", "/vms/web/cards/link", "card=network[1]&up=true", "sets the link of network[1] of web to true"},
		{
			"PATCH", "/api/v1/vms/web/cards/network%5B1%5D", `{"up": false}`,
			"sets the link of network[1] of web to false",
		},
		{"POST", "/vms/web/snapshot", "name=+now", "makes a snapshot of webnow"},
		{"POST", "/api/v1/vms/web/snapshots", `{"name": "now"}`, "makes a snapshot of webnow"},
		{"POST", "/vms/desk/restore", "snapshot=first&definition=first", "restores desk from first true"},
		{"POST", "/api/v1/vms/desk/snapshots/first/restore", "", "restores desk from first false"},
		{"POST", "/vms/web/snapshot/delete", "snapshot=first", "deletes first of web"},
		{"DELETE", "/api/v1/vms/web/snapshots/first", "", "deletes first of web"},
		{"POST", "/vms/web/autostart", "on=true", "sets the autostart of web to true"},
		{"PUT", "/api/v1/vms/web/autostart", `{"on": false}`, "sets the autostart of web to false"},
		{"POST", "/vms/web/clone", "to=web-2&snapshot=first", `clones web "first" to web-2`},
		{"POST", "/api/v1/vms/web/clone", `{"name": "web-2"}`, `clones web "" to web-2`},
		{"POST", "/vms/desk/rename", "to=+table", "renames desk to table"},
		{"POST", "/api/v1/vms/desk/rename", `{"name": "table"}`, "renames desk to table"},
		{"POST", "/vms/desk/delete", "name=desk&data=yes", "deletes desk with its data"},
		{"DELETE", "/api/v1/vms/desk?data=true", "", "deletes desk with its data"},
		{"POST", "/vms/desk/delete", "name=desk", "delete desk"},
	} {
		p.done = nil
		for _, user := range []string{"guest", "stranger"} {
			p.allow("guest", "view")
			answer, _ := p.call(c.method, c.path, c.body, "Test-User", user)
			require.GreaterOrEqual(t, answer.StatusCode, 400, "%s %s by %s", c.method, c.path, user)
		}
		require.Empty(t, p.done, c.path)
		answer, text := p.call(c.method, c.path, c.body)
		require.Less(t, answer.StatusCode, 300, "%s %s: %s", c.method, c.path, text)
		require.Equal(t, []string{"admin " + c.did}, p.done, "%s %s", c.method, c.path)
	}
	_, text := p.call("DELETE", "/api/v1/vms/desk?data=true", "")
	require.JSONEq(t, `{"left": ["/srv/shared.img"]}`, text)
	for _, path := range []string{"restore", "snapshot/delete", "detach", "cards/detach"} {
		p.done = nil
		answer, page := p.submit("/vms/desk/"+path, "snapshot", "first", "disk", "disk")
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, page, `name="sure"`, "without scripts it is asked on a page")
		require.Empty(t, p.done, path)
	}
	for _, form := range []string{"size=much", "size=-1", ""} {
		answer, text := p.call("POST", "/vms/web/attach", form)
		require.Equal(t, http.StatusConflict, answer.StatusCode, text)
	}
}

// The pages of one computer show what can be done, and why not.
func TestPagesOfOneComputer(t *testing.T) {
	t.Parallel()
	p := onOneComputer(t)
	show := func(path string, parts ...string) string {
		t.Helper()
		for _, lang := range []string{"de", "en"} {
			answer, page := p.call("GET", path, "", "Accept-Language", lang)
			require.Equal(t, http.StatusOK, answer.StatusCode, page)
			checkPage(t, path, lang, page)
			if lang == "en" {
				for _, part := range parts {
					require.Contains(t, page, part, path)
				}
				return page
			}
		}
		return ""
	}
	show("/vms/web/disks", `File <span class="soft">raw</span>`, `20 GiB<p class="soft">3 GiB on disk</p>`,
		`id="detach-disk" data-question="Detach disk?`, `id="grow-disk"`, `id="attach-size"`, `id="attach-file"`,
		`<option value="/media/debian-13.iso">`, `list="media-0"`, `id="eject-0"`, `id="snapshot-name"`,
		`id="restore-first"`, `disabled title="Shut the virtual machine down first."`, "without &lt;b&gt;nbd&lt;/b&gt;",
		"</b> copy &lt;b&gt;nbd&lt;/b&gt; there",
		"copying the disks for web-2: 40 %", `href="/vms/web/clone?snapshot=first"`)
	show("/vms/desk/disks", `<option value="disk">`, `id="export-disk">`)
	show("/vms/web/disks", `id="export-disk" disabled title="Shut the virtual machine down first."`)
	show("/vms/web/network", `id="link-52:54:00:00:00:01">Unplug`, `id="link-network[1]">Plug in`,
		`data-question="Remove the network card network[1]?"`, "br&lt;1&gt;", `<option value="tap">Tap`)
	show("/vms/web", `role="switch" aria-checked="true"`, "When you log in", "loginctl enable-linger", `id="rename"`)
	show("/vms/desk", `aria-checked="false"`)
	page := show("/vms/desk/disks", `id="restore-first" data-question="Restore desk from the snapshot first?`)
	require.NotContains(t, page, "Shut the virtual machine down first.")
	show("/vms/web/clone?snapshot=first", `<option value="first" selected>`, "as they are now")
	show("/vms/web/rename", "Shut the virtual machine down first.", `value="web"`)
	show("/vms/desk/delete", "/data/web/disk.img (20 GiB)", `name="data"`)
	page = show("/disks", `<input type="hidden" id="f-kind" name="kind" value="UploadedFile">`,
		"Files are stored in /home/joe/.local/share/vmrunner-media, which has 80 GiB of free space.",
		`list="fetch-url-known"`, `<option value="debian/13">`, `id="fetch"`,
		`data-upload="/api/v1/disks/UploadedFile/half.iso/data"`, "Waiting for upload 45%",
		`data-question="Delete the image debian-12-0123456789ab?`, "last used", "&lt;b&gt;2 snapshots&lt;/b&gt;",
		`disabled title="used by web: `)
	require.NotContains(t, page, "kubectl")
	require.NotContains(t, page, `id="f-size"`)
	require.NotContains(t, page, `id="download-`)
	show("/disks/DeletedVMData/old/delete", "&lt;b&gt;2 snapshots&lt;/b&gt;", "Type the name old")

	p.machines.notes = []string{"the guest's host name is still desk"}
	_, page = p.submit("/vms/desk/rename", "to", "table")
	require.Contains(t, page, "host name is still desk")
	p.setFails(fleet.Refusal("its configuration has a vm.uuid"))
	answer, page := p.submit("/vms/web/clone", "to", "web-2")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, page, `<div id="to-faults" class="faults"><p>its configuration has a vm.uuid</p>`)
}

// Without scripts, a fetched image is deleted after a question, and an uploaded file after its name was typed.
func TestFilesAreDeleted(t *testing.T) {
	t.Parallel()
	p := onOneComputer(t)
	_, page := p.submit("/disks/CachedImage/debian-12-0123456789ab/delete")
	require.Contains(t, page, `name="sure"`)
	answer, _ := p.submit("/disks/UploadedFile/half.iso/delete", "name", "other")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Empty(t, p.done)
	p.submit("/disks/CachedImage/debian-12-0123456789ab/delete", "sure", "yes")
	p.submit("/disks/UploadedFile/half.iso/delete", "name", "half.iso")
	require.Equal(t, []string{
		"admin deletes CachedImage debian-12-0123456789ab", "admin deletes UploadedFile half.iso",
	}, p.done)
	for _, body := range []string{
		`{"name": "a.iso", "kind": "UploadedFile", "from": "upload"}`,
		`{"kind": "CachedImage", "from": "url", "url": "debian/13"}`,
	} {
		answer, text := p.call("POST", "/api/v1/disks", body)
		require.Equal(t, http.StatusNoContent, answer.StatusCode, text)
	}
	require.Equal(t, `admin creates CachedImage  0 "url" "debian/13" "" ""`, p.done[3])
	for _, c := range [][3]string{
		{"PATCH", "/api/v1/disks/UploadedFile/half.iso", `{"size": "30 GiB"}`},
		{"POST", "/api/v1/disks/UploadedFile/half.iso/export", ""},
		{"GET", "/api/v1/disks/UploadedFile/half.iso/data", ""},
	} {
		answer, text := p.call(c[0], c[1], c[2])
		require.Equal(t, http.StatusConflict, answer.StatusCode, "%s %s", c[1], text)
	}
}

// The pages of one computer can be used with the keyboard, and fit narrow windows.
func TestOneComputerInBrowser(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := onOneComputer(t)
	b := browser.New(t)
	for _, page := range []string{
		"/vms/desk", "/vms/desk/disks", "/vms/desk/network", "/vms/web/clone", "/vms/desk/delete",
		"/vms/desk/rename", "/disks",
	} {
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{390, 900, 1440} {
				b.Open(p.http.URL+page, scheme, width)
				name := fmt.Sprintf("%s-%s-%d", strings.ReplaceAll(page[1:], "/", "-"), scheme, width)
				b.Picture(name)
				b.Layout(name)
				if width != 900 {
					b.Accessible("../..")
				}
			}
		}
	}
	b.Open(p.http.URL+"/disks", "light", 390)
	file := filepath.Join(t.TempDir(), "debian 14.iso")
	require.NoError(t, os.WriteFile(file, []byte("an image"), 0o600))
	b.Do("upload", chromedp.SetUploadFiles(chromedp.CSS("#f-file"), []string{file}),
		browser.Holds(`document.querySelector("#f-name").value == "debian 14.iso"`),
		chromedp.Click(chromedp.CSS("#newdisk button.primary")))
	wait.Until(t, func() bool {
		p.stage.mutex.Lock()
		defer p.stage.mutex.Unlock()
		return string(p.disks.uploads["debian 14.iso"]) == "an image"
	}, "the file has arrived")
	b.Open(p.http.URL+"/vms/desk", "light", 390)
	did := func(what string) { wait.Until(t, func() bool { return p.has("admin " + what) }, what) }
	focus := func(id string) chromedp.Action[chromedp.Void] {
		return chromedp.Evaluate[chromedp.Void](`document.querySelector("` + id + `").focus()`)
	}
	b.Do("switch it on", focus("#autostart"), chromedp.KeyEvent(" "))
	did("sets the autostart of desk to true")
	b.Open(p.http.URL+"/vms/desk/disks", "light", 390)
	b.Do("attach", focus("#attach-size"), chromedp.KeyEvent("3 GiB\r"))
	did("attaches 3221225472 to desk")
	b.Do("restore", focus("#restore-first"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#question")),
		focus("#question button[value=yes]"), chromedp.KeyEvent("\r"))
	did("restores desk from first false")
}
