package web

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
	"vmop/test/wait"
)

// The pages for creating, changing and deleting VMs pass the same checks as in TestPictures.
func TestPicturesOfForms(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, oneOfEach()...)
	p.faulty["faulty: 1"] = fleet.Faults{
		{Path: "vm.maximumCpus", Line: 3, Message: "want 1 to 710 (such as 4)"}, {Message: "the policy forbids it"},
	}
	b := browser.New(t)
	show := func(address string, check bool, scheme string, width int64) {
		b.Open(p.http.URL+address, scheme, width)
		if check {
			b.Do("check", chromedp.Click(chromedp.CSS("#edit [value=check]")),
				chromedp.WaitVisible(chromedp.CSS("#effects")))
		}
	}
	for _, page := range []struct {
		name, address string
		check         bool
	}{
		{"new", "/new", false},
		{"new-filled", "/new?name=web&user=joe&withpassword=yes&disk=20+GiB&disk=%2Fimages%2Fdata.qcow2", false},
		{"new-faults", "/new?name=web&cpus=none&ram=much&disk=big&key=x&option.queues=many", false},
		{"new-windows", "/new?name=web&type=windows&cd=%2Fiso%2Fwin11.iso", false},
		{"new-cloud", "/new?name=web&type=cloud", false},
		{"new-leftover", "/new?name=web&type=cloud", false},
		{"edit", "/vms/vm-running/edit", false},
		{"edit-checked", "/vms/vm-running/edit", true},
		{"delete", "/vms/vm-stopped/delete", false},
		{"delete-running", "/vms/vm-running/delete", false},
	} {
		if !browser.Chosen(page.name) {
			continue
		}
		p.check.Leftover = ""
		if page.name == "new-leftover" {
			p.check.Leftover = "/home/joe/.local/share/vmrunner/web: disk.img (8 GiB), the state of a TPM, the uuid and VM type"
		}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range widths {
				show(page.address, page.check, scheme, width)
				b.Picture(fmt.Sprintf("%s-%s-%d", page.name, scheme, width))
				b.Layout(fmt.Sprintf("%s, %s, %d", page.name, scheme, width))
				if width != 900 {
					b.Accessible("../..")
				}
			}
		}
		b.Speak("de")
		show(page.address, page.check, "light", 390)
		b.Picture(page.name + "-de-390")
		b.Layout(page.name + " in German")
		b.Speak("en")
	}
}

// The check of the layout finds fields that are wider than their column, as from a style of table cells that also
// applies to fields, a row of tabs that doesn't scroll, and broken words.
func TestLayoutFindsDefects(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	b := browser.New(t)
	for _, c := range []struct{ path, style, want string }{
		{"/new?option.queues=2", ".number { white-space: nowrap }", "is cut|is outside of|overlap"},
		{"/new?option.queues=2", ".field.number { width: 60rem }", "is outside of"},
		{"/vms/web", ".tabs { overflow: visible }", "wide in a window of 390|is cut"},
		{"/vms/web/disks", ".disks .stack td { width: 3rem; overflow-wrap: anywhere }", "word .* of td .* is broken"},
	} {
		b.Open(p.http.URL+c.path, "light", 390)
		require.Empty(t, b.LayoutFaults(), c.path)
		b.Do("a defect", chromedp.Evaluate[chromedp.Void](`void (() => { const sheet = new CSSStyleSheet();
			sheet.replaceSync("`+c.style+`"); document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet] })()`))
		require.Regexp(t, c.want, b.LayoutFaults(), c.style)
	}
}

// While the user types, the definition follows, and errors appear at their fields. No password leaves the browser
// before the VM is created.
func TestNewVMInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	b := browser.New(t)
	b.Open(p.http.URL+"/", "light", 1280)
	b.Do("the first step", chromedp.Click(chromedp.CSS("#new")),
		chromedp.WaitVisible(chromedp.CSS("form#new")),
		chromedp.Evaluate[chromedp.Void](`void (window.mark = 1)`))
	field := func(name string) chromedp.CSS { return chromedp.CSS(`[name="` + name + `"]`) }
	b.Do("a name", chromedp.SendKeys(field("name"), "web"),
		browser.Holds(`document.querySelector("#text")?.value.includes("name: web")`))
	b.Do("wrong RAM", chromedp.SendKeys(field("ram"), kb.End+"x"),
		browser.Holds(`document.querySelector("#f-ram-faults").textContent.includes("size") &&
			document.querySelector("[name=ram]").getAttribute("aria-invalid") == "true"`))
	b.Do("right", chromedp.SendKeys(field("ram"), kb.End+kb.Backspace),
		browser.Holds(`document.querySelector("#f-ram-faults").textContent == "" && document.querySelector("#text")`))
	b.Do("another type", chromedp.SetValue(field("type"), "cloud"),
		chromedp.Evaluate[chromedp.Void](`void document.querySelector("[name=type]").dispatchEvent(new Event("input", {bubbles: true}))`),
		browser.Holds(`!document.getElementById("f-option.tpm") &&
			document.querySelector("#text").value.includes("type: cloud")`))
	b.Do("one more disk", chromedp.Click(chromedp.CSS("button[value=disk]")),
		browser.Holds(`document.querySelectorAll("[name=disk]").length == 2 && document.activeElement.id == "f-disk.1"`))
	b.Do("a password", chromedp.SendKeys(field("user"), "joe"), chromedp.SendKeys(field("password"), "canary"),
		browser.Holds(`document.querySelector("#text").value.includes("hash of the password") &&
			document.querySelector("[name=password]").value == "canary" && window.mark == 1`))
	b.Do("change it by hand", chromedp.Focus(chromedp.CSS("#text")),
		chromedp.Evaluate[chromedp.Void](`void document.querySelector("#text").setSelectionRange(0, 0)`),
		chromedp.SendKeys(chromedp.CSS("#text"), "# by hand\n"),
		browser.Holds(`document.querySelector("#preview button[value=fields]") &&
			document.activeElement.id == "text" && document.activeElement.value.startsWith("# by hand")`))
	b.Do("create", chromedp.Click(chromedp.CSS("button[value=create]")),
		chromedp.WaitVisible(chromedp.CSS("#vmhead")))
	wait.Until(t, func() bool { return p.has("admin start web") })
	p.stage.mutex.Lock()
	defer p.stage.mutex.Unlock()
	require.True(t, strings.HasPrefix(p.saved, "# by hand\n"), p.saved)
	require.Contains(t, p.saved, "passwd: $6$")
	require.NotContains(t, p.saved, "canary")
}
