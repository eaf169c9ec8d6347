package web

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/manager/fleet"
	"vmop/test/browser"
	"vmop/test/wait"
)

// moves is a VM whose guest can move; with a number, that much of it has moved.
func moves(progress ...int) *fleet.VM {
	vm := sample("web", fleet.Running)
	vm.Can[fleet.Migrate] = len(progress) == 0
	for _, p := range progress {
		vm.Migration = &fleet.Migration{From: "node-1", To: "node-2", Progress: p, Message: "the guest is being moved"}
	}
	return vm
}

// A guest that can't move has a button all the same, which says why; one that is being moved, how far it is.
func TestWhyAGuestDoesNotMove(t *testing.T) {
	t.Parallel()
	fixed := sample("fixed", fleet.Running)
	fixed.Unmovable = "the disk <b>data</b> is on one node"
	p := newPlay(t, fixed, moves(45), sample("off", fleet.Stopped))
	_, text := p.call("GET", "/vms/fixed", "")
	require.Regexp(t, `id="migrate-fixed"[^>]* disabled[^>]*the disk &lt;b&gt;data&lt;/b&gt; is on one node`, text)
	_, text = p.call("GET", "/vms/web", "")
	require.Contains(t, text, "Moving from node node-1 to node-2, 45 % done: the guest is being moved")
	require.Contains(t, text, "Migrating")
	require.NotContains(t, text, "migrate-web")
	_, text = p.call("GET", "/vms/off", "")
	require.NotContains(t, text, "migrate-off")
	_, text = p.call("GET", "/api/v1/vms/web", "")
	require.Contains(t, text, `"migration":{"from":"node-1","to":"node-2","progress":45,`)
}

// The menu of a VM moves its guest, and the page shows how far that is.
func TestAGuestMovesInTheBrowser(t *testing.T) {
	t.Parallel()
	p := newPlay(t, moves())
	b := browser.New(t)
	b.Open(p.http.URL+"/vms/web", "light", 1280)
	b.Do("move it", chromedp.Click(chromedp.CSS("#vmhead summary")),
		chromedp.WaitVisible(chromedp.CSS("#migrate-web")), chromedp.Click(chromedp.CSS("#migrate-web")))
	wait.Until(t, func() bool { return p.has("admin migrate web") })
	shows := func(element, text string) {
		b.Do(text, browser.Holds(`document.querySelector("#`+element+`").textContent.includes("`+text+`")`))
	}
	p.Put(moves(0))
	shows("vmhead", "Migrating")
	shows("vmalerts", "from node node-1 to node-2, 0 % done")
	b.Accessible("../..")
	p.Put(moves(70))
	shows("vmalerts", "70 % done")
	moved := moves()
	moved.Node = "node-2"
	p.Put(moved)
	shows("vmhead", "Running")
	shows("vmfacts", "node-2")
	b.Do("it is over", browser.Holds(`!document.querySelector("#vmalerts").textContent.includes("done")`))
}
