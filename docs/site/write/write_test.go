package main

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
)

// A browser shows the site from a folder, narrow and wide, and its search leads to a section of a page in a folder.
func TestSite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, write(dir, "v1.2.3", "https://example.org/vmop/"))
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	b := browser.New(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1280} {
			for _, page := range []string{"index.html", "migration.html", "vm-types/tutorial.html"} {
				b.Open(server.URL+"/"+page, scheme, width)
				b.Accessible("../../..")
			}
		}
	}
	b.Open("file://"+filepath.Join(dir, "vm-types/tutorial.html"), "light", 1280) // without a server
	require.Equal(t, "v1.2.3", browser.Value[string](b, `document.querySelector("header span").textContent`))
	b.Do("search", chromedp.SendKeys(chromedp.CSS("input"), "helm uninstall"),
		chromedp.Click(chromedp.CSS(`.hits a[href="../kubernetes-images.html#helm"]`)),
		chromedp.WaitVisible(chromedp.CSS("h2#helm")))
	b.Do("search in vain", chromedp.SendKeys(chromedp.CSS("input"), "nowhere-to-be-found"),
		browser.Holds(`document.querySelector(".hits").textContent === "Nothing is found." && document.querySelector(".doc").hidden`))
	b.Open("file://"+filepath.Join(dir, "kubernetes-images.html"), "light", 1280)
	require.NotEmpty(t, browser.Value[string](b, `document.querySelector("a[href^='https://example.org/vmop/deploy']").href`))
}
