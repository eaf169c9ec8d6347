package web

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
)

// A disk of a new VM is created from an image or URL, or is an existing disk. Errors are shown at their fields.
func TestDisksInTheForm(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	form := func(path string) string {
		answer, page := p.call("GET", path, "")
		require.Equal(t, http.StatusOK, answer.StatusCode)
		return page
	}
	require.NotContains(t, form("/new?name=web"), `name="from"`, "there are no such disks")
	require.Contains(t, form("/new?name=web&disk=1+GiB&from=blank"), "disks: [{1073741824  }]\n")
	p.offerSources()
	page := form("/new?name=web&disk=&from=image:debian-12&class=&disk=5+GiB&from=blank&class=fast&disk=&from=disk:data" +
		"&disk=8+GiB&from=url&url=x&url=&url=&url=https://example.org/a.qcow2&checksum=&checksum=&checksum=&checksum=sha256:ab")
	for _, part := range []string{
		"disks: [{3221225472  }{image debian-12 } {5368709120  fast}{blank  } {0  }{disk data } " +
			"{8589934592  }{url https://example.org/a.qcow2 sha256:ab}]",
		`<option value="image:debian-12" selected>New disk from image debian-12 (3 GiB)</option>`,
		`<option value="disk:data" selected>Disk data (10 GiB)</option>`,
	} {
		require.Contains(t, page, part)
	}
	link := regexp.MustCompile(`href="(/new\?[^"]+)"`).FindStringSubmatch(page)
	require.NotNil(t, link)
	again := form(html.UnescapeString(link[1]))
	require.Contains(t, again, regexp.MustCompile(`disks: .*`).FindString(page), "the link has the disks")

	answer, page := p.submit("/new", "do", "create", "name", "web", "type", "standard", "cpus", "1", "ram", "1 GiB",
		"from", "image:debian-12", "disk", "1 GiB", "from", "image:gone", "disk", "9 GiB",
		"from", "disk:gone", "disk", "", "from", "url", "disk", "",
		"from", "odd", "disk", "1 GiB", "from", "blank", "disk", "", "from", "blank", "disk", "0")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	for id, text := range map[string]string{
		"disk.0": "at least 3 GiB", "from.0": "", "from.1": "does not exist", "from.2": "does not exist",
		"url.3": "the URL of an image", "disk.3": "Enter a size", "from.4": "does not exist", "disk.5": "Enter a size",
		"disk.2": "", "disk.6": "Enter a size",
	} {
		got := faultsAt(page, id)
		require.Contains(t, got, text, id)
		require.Equal(t, text == "", got == "", "%s: %s", id, got)
	}
	p.faulty["name: db"] = fleet.Faults{
		{Path: "VirtualDisk db-system.spec.dataSource.http.url", Message: "no user"},
		{Path: "VirtualDisk db-system.spec.dataSource.http.checksum", Message: "no digits"},
		{Path: "VirtualDisk db-system.metadata.name", Message: "there is one"},
		{Path: "spec.blockDeviceRefs[1]", Message: "twice"},
	}
	_, page = p.submit("/new", "do", "create", "name", "db", "type", "standard", "cpus", "1", "ram", "1 GiB",
		"from", "url", "disk", "1 GiB", "url", "https://me@x/y", "checksum", "z", "from", "disk:data", "disk", "")
	for id, text := range map[string]string{
		"url.0": "no user", "checksum.0": "no digits", "disk.0": "there is one", "disk.1": "twice",
	} {
		require.Contains(t, faultsAt(page, id), text, id)
	}
	require.Empty(t, p.done)
}

// A VM's page shows its disks; pages of the portal show nothing about them.
func TestDisksOfAVM(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Failed)
	vm.Volumes = append(vm.Volumes, fleet.Volume{
		Kind: fleet.VirtualDisk, Name: "data", Size: 1 << 30, State: "InProgress", Message: "the export <b>starts</b>",
		Attachment: "web-data",
	}, fleet.Volume{Kind: fleet.OwnDisk, Name: "system-disk-web-0", Size: 2 << 30},
		fleet.Volume{Kind: fleet.VirtualImage, Name: "tools", State: "Missing"})
	p := newPlay(t, vm)
	_, page := p.call("GET", "/vms/web/disks", "")
	for _, part := range []string{
		`<td><code>web-system</code></td><td>Virtual disk</td><td class="number">20 GiB</td>` +
			`<td><span class="state busy">Importing 45%</span><p class="soft">the image of &lt;b&gt;debian&lt;/b&gt; is being imported</p></td>` +
			`<td class="origin">VirtualImage/debian-12</td>`,
		`<td>CD drive</td><td class="number"></td><td></td><td class="origin">debian.iso</td>`,
		`<td>Virtual disk – hot-plugged</td>`, `<p class="soft">the export &lt;b&gt;starts&lt;/b&gt;</p>`,
		`<td>Disk of this VM</td><td class="number">2 GiB</td><td></td><td class="origin">blank</td>`,
		`<td>Image</td><td class="number"></td><td><span class="state bad">Missing</span></td><td></td>`,
	} {
		require.Contains(t, page, part)
	}
	p.roles(map[string][]string{"staff": {"VmAccess"}})
	p.allow("guest", "start")
	_, text := p.call("GET", "/api/v1/vms/web", "", "Test-User", "guest")
	require.NotContains(t, text, "disks")
	_, text = p.call("GET", "/api/v1/vms/web", "")
	require.Contains(t, text, `"disks":[{"kind":"VirtualDisk","name":"web-system"`)
}

// Users who may edit a VM can attach and detach disks, and create snapshots.
func TestAttachAndSnapshot(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Running)
	vm.Volumes = append(vm.Volumes, fleet.Volume{
		Kind: fleet.VirtualDisk, Name: "data", State: "Ready", Attachment: "web-data", Detaches: "data",
	}, fleet.Volume{
		Kind: fleet.VirtualImage, Name: "drivers", State: "Ready", Attachment: "web-drivers-vi",
		Detaches: "vi/drivers",
	})
	vm.Snapshots = []fleet.Snapshot{
		{Name: "web-2", State: "Failed", Message: "the agent <b>can't</b>", At: then, Consistent: new(false)},
		{Name: "web-1", State: "Ready", Message: "unseen", At: then, Consistent: new(true)},
	}
	p := newPlay(t, vm)
	_, page := p.call("GET", "/vms/web/disks", "")
	require.NotContains(t, page, `id="snapshot"`, "this fleet has none")
	p.store(stored()...)
	_, page = p.call("GET", "/vms/web/disks", "")
	checkPage(t, "a VM with snapshots", "en", page)
	for _, part := range []string{
		`<option>disk-pending</option>`, `<button id="detach-data" data-question="Detach data? Unmount the disk`,
		`<button id="detach-vi/drivers"`, `name="disk" value="vi/drivers"`,
		`<td><code>web-2</code></td>`, `the agent &lt;b&gt;can&#39;t&lt;/b&gt;`, "Not consistent: as after a power failure",
		">Consistent<",
		"use kubectl vmop restore to restore a snapshot",
	} {
		require.Contains(t, page, part)
	}
	require.NotContains(t, page, `<option>disk-ready</option>`, "a VM has it")
	require.NotContains(t, page, "unseen")
	calls := [][3]string{
		{"POST", "/vms/web/attach", "disk=other"},
		{"POST", "/vms/web/detach", "disk=data"},
		{"POST", "/vms/web/snapshot", ""},
		{"PUT", "/api/v1/vms/web/disks/other", ""},
		{"DELETE", "/api/v1/vms/web/disks/data", ""},
		{"POST", "/api/v1/vms/web/snapshots", ""},
	}
	p.allow("guest", "start", "create", "delete", "takeConsole")
	for _, c := range calls {
		answer, _ := p.call(c[0], c[1], c[2], "Test-User", "guest")
		require.Equal(t, http.StatusForbidden, answer.StatusCode, c[1])
		answer, _ = p.call(c[0], c[1], c[2], "Test-User", "stranger")
		require.Equal(t, http.StatusNotFound, answer.StatusCode, c[1])
	}
	_, page = p.call("GET", "/vms/web/disks", "", "Test-User", "guest")
	require.Contains(t, page, `<button id="snapshot" disabled`)
	require.NotContains(t, page, "vmattach")
	answer, page := p.submit("/vms/web/detach", "disk", "data")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, page, "Unmount the disk in the guest first.", "without scripts it is asked on a page")
	answer, _ = p.call("PUT", "/api/v1/vms/web/disks/other?dryRun=true", "")
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Empty(t, p.done)
	p.allow("guest", "edit")
	for _, c := range calls {
		answer, text := p.call(c[0], c[1], c[2], "Test-User", "guest")
		require.Equal(t, http.StatusNoContent, answer.StatusCode, "%s %s", c[1], text)
	}
	did := []string{"guest attaches other to web", "guest detaches data from web", "guest makes a snapshot of web"}
	require.Equal(t, append(did, did...), p.done)
}

// Fields that don't apply to a kind of disk are hidden, and a VM is created from an image without a size.
func TestDiskOfAnImageInBrowser(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t)
	p.offerSources()
	b := browser.New(t)
	b.Open(p.http.URL+"/new?name=web&start=no", "light", 1280)
	shown := func(field, is string) chromedp.Action[chromedp.Void] {
		return browser.Holds(`(document.getElementById("f-` + field + `").offsetParent != null) == ` + is)
	}
	choose := func(value string) chromedp.Action[chromedp.Void] {
		return chromedp.Evaluate[chromedp.Void](`{const field = document.getElementById("f-from.0"); field.value = "` + value +
			`"; field.dispatchEvent(new Event("input", {bubbles: true}))}`)
	}
	b.Do("its own", shown("url.0", "false"), shown("disk.0", "true"))
	b.Do("of an address", choose("url"), shown("url.0", "true"), shown("checksum.0", "true"),
		browser.Holds(`document.getElementById("f-url.0-faults").textContent.includes("URL of an image")`))
	b.Accessible("../..")
	b.Picture("new-disks")
	b.Do("one that is there", choose("disk:data"), shown("disk.0", "false"), shown("class.0", "false"))
	b.Do("without a size", chromedp.Evaluate[chromedp.Void](`void (document.querySelector("[name=disk]").value = "")`))
	b.Do("of an image", choose("image:debian-12"),
		shown("url.0", "false"), browser.Holds(`document.querySelector("#text")?.value.includes("{image debian-12 }")`),
		chromedp.Click(chromedp.CSS("button[value=create]")), chromedp.WaitVisible(chromedp.CSS("#vmdisks")))
	p.stage.mutex.Lock()
	defer p.stage.mutex.Unlock()
	require.Contains(t, p.saved, "disks: [{3221225472  }{image debian-12 }]\n")
}
