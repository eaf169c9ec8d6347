package web

import (
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
	"vmop/test/guest"
)

// replace changes the definition in its field, as typing does.
func replace(old, new string) chromedp.Action[chromedp.Void] {
	quoted := strings.NewReplacer("\n", `\n`, `"`, `\"`)
	return chromedp.Evaluate[chromedp.Void](`(() => { const text = document.querySelector("#text");
		if (!text.value.includes("` + quoted.Replace(old) + `")) throw new Error(text.value);
		text.value = text.value.replace("` + quoted.Replace(old) + `", "` + quoted.Replace(new) + `");
		text.dispatchEvent(new Event("input", {bubbles: true})) })()`)
}

// A VM created with the form boots, is edited while it runs, and is deleted. Its disks are kept.
func TestNewVMBoots(t *testing.T) {
	t.Parallel()
	c, b := newComputer(t), browser.New(t)
	c.enter(b)
	image, log := c.path("echo.img"), c.path("made.log")
	name := c.vm + "-made"
	vmPage := chromedp.WaitVisible(chromedp.CSS("#vmhead"))
	b.Do("open the form", click("#new"), chromedp.WaitVisible(chromedp.CSS("form#new")))
	set := func(field, value string) chromedp.Action[chromedp.Void] {
		return chromedp.SetValue(chromedp.CSS(`[name="`+field+`"]`), value)
	}
	b.Do("fill it in", set("cpus", "1"), set("ram", "64 MiB"), set("origin", ""), set("disk", image),
		set("network", "none"),
		chromedp.SendKeys(chromedp.CSS("[name=name]"), name), is("#preview", name))
	b.Picture("new-real")
	b.Do("by hand", replace("  vm:\n", "  vm:\n    accelerator: tcg\n    firmware: bios\n    serialConsole: {log: "+log+"}\n"),
		chromedp.WaitVisible(chromedp.CSS("#preview button[value=fields]")), is("#preview .arguments", "-accel tcg"))
	b.Do("create and start", click(`button[value=create]`), vmPage, is("#vmhead .state", "Running"))
	c.saysIn(log, guest.EchoSays)

	b.Do("edit", click("#vmhead summary"), click("#edit"), chromedp.WaitVisible(chromedp.CSS("form#edit")),
		replace("maximumCpus: 1", "maximumCpus: 2"),
		replace("maximumRam: 64 MiB", "maximumRam: 64 MiB\n    currentRam: 48 MiB"),
		click("form#edit [value=check]"),
		chromedp.WaitVisible(chromedp.CSS("#effects")), is("#effects", "Takes effect immediately"),
		is("#effects", "vm.currentRam"),
		is("#effects", "Needs a restart"), is("#effects", "vm.maximumCpus"))
	b.Picture("edit-real")
	b.Do("save", click("form#edit [value=save]"), vmPage, is("#vmpending", "vm.maximumCpus"))
	text, err := os.ReadFile(c.path("vms/" + name + ".yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "currentRam: 48 MiB")

	b.Do("power off", click("#vmhead summary"), click("#kill-"+name), click("#question .danger"),
		is("#vmhead .state", "Stopped"))
	b.Do("delete", click("#vmhead summary"), click("#delete"), chromedp.WaitVisible(chromedp.CSS(".deletion")),
		is(".deletion", image), chromedp.SendKeys(chromedp.CSS("#typed"), name), click(".deletion .strong"),
		chromedp.WaitVisible(chromedp.CSS("#vm-"+c.vm)), chromedp.WaitNotPresent(chromedp.CSS("#vm-"+name)))
	require.NoFileExists(t, c.path("vms/"+name+".yaml"))
	require.FileExists(t, image)
}
