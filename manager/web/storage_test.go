package web

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
	"vmop/test/wait"
)

// Users who may create VMs can see and create disks. Deleting a disk requires permission to delete, its name, and that
// no VM uses it.
func TestDisksPage(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	answer, _ := p.call("GET", "/disks", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode, "this fleet has none")
	_, page := p.call("GET", "/", "")
	require.NotContains(t, page, `href="/disks"`)

	p.store(stored()...)
	paths := []struct{ method, path, form string }{
		{"GET", "/disks", ""},
		{"POST", "/disks", "name=a&kind=VirtualDisk&from=blank&size=1+GiB"},
		{"POST", "/disks/VirtualDisk/disk-pending/size", "size=30+GiB"},
		{"GET", "/disks/VirtualDisk/disk-pending/delete", ""},
		{"POST", "/disks/VirtualDisk/disk-pending/delete", "name=disk-pending"},
		{"GET", "/api/v1/disks", ""},
	}
	for _, may := range []string{"start", "delete", "edit"} {
		p.allow("guest", v1Action(may))
		for _, c := range paths {
			answer, _ := p.call(c.method, c.path, c.form, "Test-User", "guest")
			require.Equal(t, http.StatusForbidden, answer.StatusCode, "%s %s by %s", c.method, c.path, may)
		}
		_, page := p.call("GET", "/portal", "", "Test-User", "guest")
		require.NotContains(t, page, `href="/disks"`)
	}
	p.allow("guest", "create")
	_, page = p.call("GET", "/disks", "", "Test-User", "guest")
	require.Contains(t, page, `<button id="delete-VirtualDisk-disk-pending" class="danger" disabled`)
	for _, c := range paths[3:5] {
		answer, _ := p.call(c.method, c.path, c.form, "Test-User", "guest")
		require.Equal(t, http.StatusForbidden, answer.StatusCode, c.path)
	}
	require.Empty(t, p.done)
	p.roles(map[string][]string{"staff": {"VmAccess"}})
	answer, _ = p.call("GET", "/disks", "", "Test-User", "guest")
	require.Equal(t, http.StatusForbidden, answer.StatusCode, "it is no page of the portal")

	for _, c := range paths {
		answer, text := p.call(c.method, c.path, c.form)
		require.Less(t, answer.StatusCode, 400, "%s: %s", c.path, text)
		if answer.StatusCode == http.StatusOK && c.path[:5] != "/api/" {
			checkPage(t, c.path, "en", text)
		}
	}
	_, page = p.call("GET", "/disks", "")
	for _, part := range []string{
		`the reason of &lt;b&gt;Failed&lt;/b&gt;`, `<td>web, web-2</td>`,
		"kubectl vmop disk upload disk-waitforuserupload FILE", `<a id="delete-VirtualDisk-disk-pending" class="button danger"`,
		`<button id="delete-VirtualDisk-disk-ready" class="danger" disabled title="used by web, web-2: `,
	} {
		require.Contains(t, page, part)
	}
	require.Equal(t, []string{
		`admin creates VirtualDisk a 1073741824 "blank" "" "" ""`, "admin grows VirtualDisk disk-pending 32212254720",
		"admin deletes VirtualDisk disk-pending",
	}, p.done)
}

// Forms and programs use the same fields for a disk, and invalid values are refused.
func TestDisksAreChanged(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	p.store(stored()...)
	image := url.Values{
		"name": {"debian"}, "kind": {"VirtualImage"}, "from": {"url"}, "url": {"https://example.org/d.qcow2"},
		"checksum": {"sha256:ab"}, "size": {"2,5 GiB"}, "class": {"fast"},
	}
	answer, _ := p.call("POST", "/disks", image.Encode(), "Sec-Fetch-Mode", "navigate")
	require.Equal(t, "/disks", answer.Header.Get("Location"))
	answer, _ = p.call("POST", "/api/v1/disks", `{"name": "copy", "kind": "VirtualDisk", "from": "image:debian", "size": "3G"}`)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	answer, _ = p.call("PATCH", "/api/v1/disks/VirtualDisk/disk-pending", `{"size": "30 GiB"}`)
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	answer, _ = p.call("DELETE", "/api/v1/disks/VirtualDisk/disk-pending?dryRun=true", "")
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Equal(t, []string{
		`admin creates VirtualImage debian 2684354560 "url" "https://example.org/d.qcow2" "sha256:ab" "fast"`,
		`admin creates VirtualDisk copy 3221225472 "image" "debian" "" ""`, "admin grows VirtualDisk disk-pending 32212254720",
	}, p.done)
	for _, c := range []struct {
		method, path, body string
		code               int
		text               string
	}{
		{"POST", "/api/v1/disks", `{"name": "a", "kind": "VirtualDisk", "from": "blank", "size": "much"}`, 409, "Enter a size"},
		{"POST", "/api/v1/disks", `{"name": "a", "kind": "VirtualDisk", "from": "odd", "size": "1G"}`, 409, "does not exist"},
		{"POST", "/api/v1/disks", `{"size": 1}`, 400, "as JSON"},
		{"PATCH", "/api/v1/disks/VirtualDisk/none", `{"size": "1G"}`, 404, "disk or image does not exist"},
		{"PATCH", "/api/v1/disks/VirtualDisk/disk-pending", `{"size": "x"}`, 409, "Enter a size"},
		{"DELETE", "/api/v1/disks/VirtualImage/disk-pending", "", 404, "disk or image does not exist"},
		{"DELETE", "/api/v1/disks/VirtualDisk/disk-ready", "", 409, "used by web, web-2"},
		{"POST", "/disks/VirtualDisk/disk-ready/delete", "name=disk-ready", 409, "used by web, web-2"},
		{"POST", "/disks/VirtualDisk/disk-pending/delete", "name=other", 422, "The name does not match"},
	} {
		answer, text := p.call(c.method, c.path, c.body)
		require.Equal(t, c.code, answer.StatusCode, "%s %s: %s", c.method, c.path, text)
		require.Contains(t, text, c.text, c.path)
	}
	require.Len(t, p.done, 3)
}

// The page of disks shows progress without a reload, and can create, grow and delete disks.
func TestDisksInBrowser(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.store(stored()...)
	b := browser.New(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1280} {
			b.Open(p.http.URL+"/disks", scheme, width)
			b.Picture("disks-" + scheme)
			b.Accessible("../..")
		}
	}
	b.Do("mark the page", chromedp.Evaluate[chromedp.Void](`void (window.mark = 1)`))
	b.Do("make one", chromedp.SendKeys(chromedp.CSS("#f-name"), "data"),
		chromedp.SendKeys(chromedp.CSS("#f-size"), "1 GiB"), chromedp.Click(chromedp.CSS("#newdisk button.primary")))
	did := func(what string) {
		wait.Until(t, func() bool { return p.has(what) }, what)
	}
	did(`admin creates VirtualDisk data 1073741824 "blank" "" "" ""`)
	p.stage.mutex.Lock()
	p.disks.list = append(p.disks.list, fleet.Volume{
		Kind: fleet.VirtualDisk, Name: "data", Size: 1 << 30, State: "Provisioning", Progress: "45%",
	})
	p.stage.mutex.Unlock()
	p.Put(sample("web", fleet.Running)) // makes the stream look again
	b.Do("it is there", browser.Holds(`document.querySelector("#disk-VirtualDisk-data .state")?.textContent == "Importing 45%" &&
		window.mark === 1`))
	b.Do("grow it", chromedp.SetValue(chromedp.CSS("#size-VirtualDisk-data"), "2 GiB"),
		chromedp.Click(chromedp.CSS("#grow-VirtualDisk-data")))
	did("admin grows VirtualDisk data 2147483648")
	b.Do("delete it", chromedp.Click(chromedp.CSS("#delete-VirtualDisk-data")),
		chromedp.WaitVisible(chromedp.CSS(".deletion")))
	b.Accessible("../..")
	b.Do("sure", chromedp.SendKeys(chromedp.CSS("#typed"), "data"), chromedp.Click(chromedp.CSS(".deletion .strong")),
		chromedp.WaitVisible(chromedp.CSS("#disktable")))
	did("admin deletes VirtualDisk data")
}
