package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
)

// A browser shows the site from a folder, in a narrow and in a wide window. Its search leads to a section of a page in
// a subfolder.
func TestSite(t *testing.T) {
	t.Parallel()
	dir, programs := t.TempDir(), t.TempDir()
	out, err := exec.CommandContext(t.Context(), "go", "run", "-tags", "man", "../../../cmd/vmimport", "man",
		filepath.Join(programs, "vmimport.md")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.NoError(t, writeSite(dir, "v1.2.3", "https://example.org/vmop/", programs))
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	b := browser.New(t)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 1280} {
			for _, page := range []string{"index.html", "reference/virtualdisk.html", "vm-types/tutorial.html"} {
				b.Open(server.URL+"/"+page, scheme, width)
				b.Accessible("../../..")
			}
		}
	}
	b.Open("file://"+filepath.Join(dir, "vm-types/tutorial.html"), "light", 1280) // without a server
	require.Equal(t, "v1.2.3", browser.Value[string](b, `document.querySelector("header span").textContent`))
	b.Do("search", chromedp.SendKeys(chromedp.CSS("input"), "helm uninstall"),
		browser.Press(`.hits a[href="../tasks/kubernetes-images.html#helm"]`),
		browser.Holds(`document.querySelector("h2#helm") !== null`))
	b.Do("search in vain", chromedp.SendKeys(chromedp.CSS("input"), "nowhere-to-be-found"),
		browser.Holds(`document.querySelector(".hits").textContent === "Nothing is found." && document.querySelector(".doc").hidden`))
	b.Do("find the help of a verb", browser.Press(`header a[href$="reference/index.html"]`),
		browser.Press(`a[href="vmimport.html"]`), browser.Holds(`document.querySelector("h2#vmimport-fetch") !== null`))
	b.Open("file://"+filepath.Join(dir, "tasks/kubernetes-images.html"), "light", 1280)
	require.NotEmpty(t, browser.Value[string](b, `document.querySelector("a[href^='https://example.org/vmop/deploy']").href`))
}
