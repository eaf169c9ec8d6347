package web

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
)

// Each page links to the documents of this version, which can be searched without scripts.
func TestHelp(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	answer, text := p.call("GET", "/help/tasks/pools.html", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, text, `<a href="../reference/manager.html`)
	for address, code := range map[string]int{
		"/help/pictures/list.png": http.StatusOK, "/help/doc.css": http.StatusOK,
		"/help/pictures/networks.svg": http.StatusOK,
		"/help/nothing.html":          http.StatusNotFound, "/help/..%2Fserver.go": http.StatusNotFound,
		"/help/tasks/pools.md": http.StatusNotFound,
	} {
		answer, _ := p.call("GET", address, "")
		require.Equal(t, code, answer.StatusCode, address)
	}
	_, text = p.call("GET", "/help/search?q=%3Cscript%3E", "")
	require.Contains(t, text, `value="&lt;script&gt;"`)

	b := browser.New(t)
	for _, width := range widths {
		for _, page := range []string{
			"index.html", "reference/virtual-machines.html", "search?q=reset", "search?q=nowhere",
		} {
			b.Open(p.http.URL+"/help/"+page, "dark", width)
			b.Layout(page)
			b.Accessible("../..")
		}
	}
	b.Open(p.http.URL+"/", "light", 1280)
	b.Do("help", browser.Press(`header a[href^="/help"]`),
		browser.Holds(`document.querySelector("input[name=q]") !== null`))
	b.Do("find", chromedp.SendKeys(chromedp.CSS("input[name=q]"), "helm uninstall\n"),
		browser.Press(`.hits a[href="/help/tasks/kubernetes-images.html#helm"]`),
		browser.Holds(`document.querySelector("h2#helm") !== null`))
	b.Picture("help")
}
