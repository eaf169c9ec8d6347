package web

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
)

// ofOneUser returns a server for the VMs of one user.
func ofOneUser(t testing.TB, vms ...*fleet.VM) *play {
	t.Helper()
	p := newPlay(t, vms...)
	p.server.opts.OneUser = true
	p.server.handler = p.server.allRoutes()
	return p
}

// On one computer, pages lack what only several users or nodes need. All pages begin with the name of the product.
func TestPagesOfOneUser(t *testing.T) {
	t.Parallel()
	vms := []*fleet.VM{sample("web", fleet.Running), sample("off", fleet.Stopped)}
	one, several := ofOneUser(t, vms...), newPlay(t, vms...)
	_, page := one.call("GET", "/", "")
	_, shared := several.call("GET", "/", "")
	for _, text := range []string{`href="/portal"`, "Log out", `col-node`, `col-user`} {
		require.NotContains(t, page, text)
		require.Contains(t, shared, text)
	}
	for _, text := range []string{"<b>vmop</b><span>office</span>", "<title>Virtual machines – office – vmop</title>"} {
		require.Contains(t, page, text)
		require.Contains(t, shared, text)
	}
	answer, _ := one.call("GET", "/portal", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)

	require.Contains(t, page, `data-thumbnail="/vms/web/screenshot" alt="Screen of web"`)
	require.Equal(t, 1, strings.Count(page, "data-thumbnail"), "a stopped VM has no screen")
	require.NotContains(t, shared, "data-thumbnail", "an administrator doesn't see all users' screens unasked")
	require.Contains(t, shared, `data-preview="/vms/web/screenshot"`)
}

// A browser without the page key learns how to get another link, because it can't log out.
func TestPageKeyOfOneUser(t *testing.T) {
	t.Parallel()
	for p, text := range map[*play]string{
		ofOneUser(t): "run: vmmanager local link", newPlay(t): "Log out and log in again",
	} {
		r, err := http.NewRequest(http.MethodGet, "/", nil)
		require.NoError(t, err)
		code, got := p.server.explainError(r, errNoPageKey)
		require.Equal(t, http.StatusForbidden, code)
		require.Contains(t, got, text)
	}
}

// The list loads the screens in view only, and shows them also after a change of a VM.
func TestThumbnailsInBrowser(t *testing.T) {
	t.Parallel()
	var vms []*fleet.VM
	for i := range 40 {
		vms = append(vms, sample("vm-"+strconv.Itoa(10+i), fleet.Running))
	}
	p := ofOneUser(t, vms...)
	p.picture = desktop(t)
	b := browser.New(t)
	b.Open(p.http.URL+"/", "light", 1280)
	const shown = `[...document.querySelectorAll("img[data-thumbnail]")].filter(i => i.src.startsWith("blob:"))`
	b.Do("the first screens", browser.Holds(shown+`.length > 5 &&
		`+shown+`.every(i => i.complete && i.naturalWidth == 640)`))
	b.Do("they stay when the row changes", browser.Holds(shown+`.includes(document.querySelector("#vm-vm-10 img"))`))
	changed := *sample("vm-10", fleet.Running)
	changed.CPUs.Now = 1
	p.Put(&changed)
	b.Do("the row has changed", browser.Holds(`document.querySelector("#vm-vm-10 .col-cpus").textContent.includes("1 /") &&
		document.querySelector("#vm-vm-10 img").src.startsWith("blob:")`))
	p.stage.mutex.Lock()
	require.Less(t, p.shots, 30, "the others are out of view")
	p.stage.mutex.Unlock()
	b.Do("scroll", chromedp.Evaluate[chromedp.Void](`void scrollTo(0, document.body.scrollHeight)`),
		browser.Holds(shown+`.includes(document.querySelector("#vm-vm-49 img"))`))
	p.Put(sample("vm-49", fleet.Stopped))
	b.Do("a stopped VM has none", browser.Holds(`!document.querySelector("#vm-vm-49 img")`))
}
