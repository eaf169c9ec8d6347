package web

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
	"vmop/test/wait"
)

// widths of a phone, half a screen, and a screen.
var widths = []int64{390, 900, 1440}

// In both color schemes and at three widths, no page has a fault in its layout, causes a browser error, or fails
// axe-core. PICTURES=folder saves pictures, and PAGE=text limits the pages, for work on the pages' design.
func TestPictures(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, oneOfEach()...)
	for i := range 60 {
		p.server.series.addPoint(then.Add(time.Duration(i)*time.Minute), fleet.UseOf(p.List()[:3+i/10]))
	}
	p.server.opts.Now = func() time.Time { return then.Add(time.Hour) }
	p.told = happened(time.Now())
	one := ofOneUser(t, oneOfEach()...)
	one.picture = desktop(t)
	empty, stores, noDisks, pooled := newPlay(t), newPlay(t, sample("web", fleet.Running)), newPlay(t), newPools(t)
	stores.store(stored()...)
	noDisks.store()
	stores.offerSources()
	b := browser.New(t)
	b.Ignore("404") // of the error page
	for _, page := range []struct{ name, address string }{
		{"list", p.http.URL + "/"},
		{"portal", p.http.URL + "/portal"},
		{"vm", p.http.URL + "/vms/vm-stopping"},
		{"failed", p.http.URL + "/vms/vm-failed"},
		{"vm-disks", p.http.URL + "/vms/vm-running/disks"},
		{"vm-network", p.http.URL + "/vms/vm-running/network"},
		{"vm-history", p.http.URL + "/vms/vm-running/history"},
		{"vm-lacking", p.http.URL + "/vms/vm-stopped/screen/page"},
		{"list-one-user", one.http.URL + "/"},
		{"plan", p.http.URL + "/vms/vm-running/plan"},
		{"source", p.http.URL + "/vms/vm-running/source?module=my.star&line=2"},
		{"definition", p.http.URL + "/vms/vm-running/definition"},
		{"empty", empty.http.URL + "/"},
		{"portal-empty", empty.http.URL + "/portal"},
		{"about", p.http.URL + "/about"},
		{"error", p.http.URL + "/vms/nowhere"},
		{"disks", stores.http.URL + "/disks"},
		{"disks-empty", noDisks.http.URL + "/disks"},
		{"disk-delete", stores.http.URL + "/disks/VirtualDisk/disk-pending/delete"},
		{"vm-stored", stores.http.URL + "/vms/web"},
		{"new-sources", stores.http.URL + "/new?name=db&from=url&disk=&url=x&from=image:debian-12"},
		{"pools", pooled.http.URL + "/pools"},
		{"portal-pools", pooled.http.URL + "/portal"},
	} {
		if !browser.Chosen(page.name) {
			continue
		}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range widths {
				b.Open(page.address, scheme, width)
				completePage(b, page.name)
				b.Picture(fmt.Sprintf("%s-%s-%d", page.name, scheme, width))
				b.Layout(fmt.Sprintf("%s, %s, %d", page.name, scheme, width))
				if width != 900 {
					b.Accessible("../..")
				}
			}
		}
		b.Speak("de")
		b.Open(page.address, "light", 390)
		b.Picture(page.name + "-de-390")
		b.Layout(page.name + " in German")
		b.Speak("en")
	}
}

// completePage waits for the parts of a page that scripts load, and opens folded parts.
func completePage(b *browser.Browser, name string) {
	shown := map[string]string{
		"plan":       `document.querySelector("#vmdevices summary")`,
		"vm":         `document.querySelectorAll("#vmusage svg").length == 4`,
		"vm-history": `document.querySelector("#vmhistory details")`,
		"list-one-user": `[...document.querySelectorAll("img[data-thumbnail]")]
			.some(i => i.src.startsWith("blob:"))`,
	}
	if js, has := shown[name]; has {
		b.Do("the whole page", browser.Holds(js))
	}
	switch name {
	case "plan":
		b.Do("a device", chromedp.Click(chromedp.CSS("#vmdevices summary")))
	case "vm":
		b.Do("the table", chromedp.Click(chromedp.CSS("#vmusage summary")))
	}
}

// The list shows changes without a reload, and its buttons work.
func TestListInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("alpha", fleet.Stopped), sample("beta", fleet.Running))
	b := browser.New(t)
	b.Open(p.http.URL+"/", "light", 1280)
	b.Do("mark the page", chromedp.Evaluate[chromedp.Void](`void (window.mark = 1)`))

	b.Do("start", chromedp.Click(chromedp.CSS("#start-alpha")))
	wait.Until(t, func() bool { return p.has("admin start alpha") })
	p.Put(sample("alpha", fleet.Running))
	b.Do("it runs", browser.Holds(`document.querySelector("#vm-alpha .state").textContent.includes("Running")`))
	b.Do("nothing was loaded", browser.Holds(`window.mark === 1`))

	b.Do("a question is asked", chromedp.Click(chromedp.CSS("#stop-alpha")),
		chromedp.WaitVisible(chromedp.CSS("#question")))
	b.Do("no", chromedp.Click(chromedp.CSS("#question .quiet")),
		browser.Holds(`!document.querySelector("#question").open`))
	require.False(t, p.has("admin stop alpha"))
	b.Do("yes", chromedp.Click(chromedp.CSS("#stop-alpha")), chromedp.WaitVisible(chromedp.CSS("#question")),
		chromedp.Click(chromedp.CSS("#question .danger")))
	wait.Until(t, func() bool { return p.has("admin stop alpha") })

	b.Do("all are selected, and stay so when a row changes", chromedp.Click(chromedp.CSS("[data-all]")),
		chromedp.WaitEnabled(chromedp.CSS(`#bulk button[value=stop]`)))
	p.Put(sample("beta", fleet.Paused))
	b.Do("selected", browser.Holds(`document.querySelector("#vm-beta .state").textContent.includes("Paused") &&
		document.querySelectorAll("#rows input:checked").length == 2`))
	b.Do("stop all", chromedp.Click(chromedp.CSS(`#bulk button[value=stop]`)),
		chromedp.WaitVisible(chromedp.CSS("#question")),
		chromedp.Click(chromedp.CSS("#question .danger")))
	wait.Until(t, func() bool { return p.has("admin stop beta") })

	b.Do("filter", chromedp.SendKeys(chromedp.CSS("[data-search]"), "alp"),
		browser.Holds(`document.querySelectorAll("#rows tr").length == 1 && location.search == "?q=alp"`))
	p.Put(sample("alphabet", fleet.Stopped))
	b.Do("and the filtered list is live", browser.Holds(`document.querySelectorAll("#rows tr").length == 2`))

	b.Ignore("409")
	p.setFails(fleet.Refusal("the disk is in use by gamma"))
	b.Do("a refusal is shown", chromedp.Click(chromedp.CSS("#start-alphabet")),
		browser.Holds(`document.querySelector("#toasts").textContent.includes("in use by gamma")`))
}

// Text that the user is entering stays while the page changes.
func TestTypingIsNotDisturbed(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	b := browser.New(t)
	b.Open(p.http.URL+"/vms/web", "light", 1280)
	b.Do("type", chromedp.Focus(chromedp.CSS("#cpus")), chromedp.SendKeys(chromedp.CSS("#cpus"),
		kb.End+kb.Backspace+"4"))
	changed := *sample("web", fleet.Running)
	changed.CPUs.Now, changed.Addresses = 3, []fleet.Address{{Address: "10.9.9.9", From: "Network"}}
	p.Put(&changed)
	b.Do("the page has changed", browser.Holds(`document.querySelector("#vmfacts").textContent.includes("10.9.9.9")`),
		browser.Holds(`document.querySelector("#cpus").value == "4" && document.activeElement.id == "cpus"`))
	b.Do("apply", chromedp.SendKeys(chromedp.CSS("#cpus"), kb.Enter))
	wait.Until(t, func() bool { return p.has("admin resize web cpus 4") })
}

// The table of devices appears on the page of the plan. A click on a device shows its lines, and another click hides
// them.
func TestDevicesInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	b := browser.New(t)
	for _, width := range widths {
		b.Open(p.http.URL+"/vms/web/plan", "light", width)
		const line = "#vmdevices tbody:first-of-type .lines"
		b.Do("the table", browser.Holds(`document.querySelectorAll("#vmdevices tbody").length == 3`),
			chromedp.WaitNotVisible(chromedp.CSS(line)))
		b.Do("a click", chromedp.Click(chromedp.CSS("#vmdevices summary")), chromedp.WaitVisible(chromedp.CSS(line)))
		b.Layout(fmt.Sprintf("devices, %d", width))
		b.Accessible("../..")
		b.Do("another click", chromedp.Click(chromedp.CSS("#vmdevices summary")),
			chromedp.WaitNotVisible(chromedp.CSS(line)))
	}
	b.Do("the source", chromedp.Click(chromedp.CSS("#vmdevices summary")),
		chromedp.Click(chromedp.CSS(`#vmdevices a[href$="#L40"]`)))
}

// A menu opens and closes with the keyboard only.
func TestKeyboard(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	b := browser.New(t)
	b.Open(p.http.URL+"/vms/web", "light", 1280)
	b.Do("open the menu", chromedp.Focus(chromedp.CSS("#vmhead summary")), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("#reset-web")))
	b.Do("close it", chromedp.KeyEvent(kb.Escape), browser.Holds(`!document.querySelector("#vmhead details").open`))
	b.Do("reset", chromedp.KeyEvent(kb.Enter), chromedp.Focus(chromedp.CSS("#reset-web")), chromedp.KeyEvent(kb.Enter),
		chromedp.WaitVisible(chromedp.CSS("#question")), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Enter))
	wait.Until(t, func() bool { return p.has("admin reset web") })
}
