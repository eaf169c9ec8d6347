package e2e_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
	"vmop/test/visitor"
	"vmop/test/wait"
)

// As in docs/tasks/web.md, a user uploads a file from the browser to a new image and to a new disk, and downloads both.
// The pods with the data accept only the manager: they run with the permissions that the manager grants.
func filesThroughPages(t *testing.T, l *lab, b *browser.Browser, address string) {
	content := make([]byte, 9<<20) // two pieces
	_, err := rand.NewChaCha8([32]byte{9}).Read(content[4<<20:])
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "from-page.img")
	require.NoError(t, os.WriteFile(file, content, 0o600))
	b.Ignore("the server responded with a status of 503") // while the pods start
	host := strings.TrimPrefix(address, "http://")
	person := visitor.New(t, nil).LogIn(host, "admin", "a password")
	for _, kind := range []string{"VirtualImage", "VirtualDisk"} {
		b.Open(address+"/disks", "light", 1280)
		b.Do("send a file", chromedp.SetValue(chromedp.CSS("#f-kind"), kind),
			chromedp.SetValue(chromedp.CSS("#f-from"), "upload"),
			chromedp.SetUploadFiles(chromedp.CSS("#f-file"), []string{file}),
			browser.Holds(`document.querySelector("#f-size").value === "9 MiB"`),
			chromedp.SendKeys(chromedp.CSS("#f-class"), storage),
			chromedp.Click(chromedp.CSS("#newdisk button.primary")),
			browser.Holds(`document.querySelector("#toasts").textContent.includes("from-page imported")`))
		b.Picture("cluster-upload-" + kind)
		l.fetchThroughPages(t, person, host, kind, content)
	}
	require.Contains(t, l.managerLog(t.Context()), `"msg":"action","user":"admin","disk":"from-page","action":"upload"`)
	wait.For(t, "the key to go with its pod", func() error {
		all := l.kubectl(t, "get", "secrets", "-o", "name")
		if strings.Contains(all, "from-page") {
			return errors.New(all)
		}
		return nil
	})
}

// fetchThroughPages downloads a disk in both formats.
func (l *lab) fetchThroughPages(t *testing.T, person *visitor.Visitor, address, kind string, content []byte) {
	t.Helper()
	for _, format := range []string{"raw", "gzip"} {
		to := ""
		wait.For(t, "the export before to end", func() error {
			code, next := person.Post(address, "/disks/"+kind+"/from-page/export", url.Values{"format": {format}})
			if code != http.StatusSeeOther {
				return errors.New(http.StatusText(code))
			}
			to = next
			return nil
		})
		to = "/api/v1" + strings.Replace(to, "/export?", "/data?", 1)
		got := ""
		wait.For(t, "a download", func() error {
			code, text := person.Get(address, to)
			if code != http.StatusOK {
				return errors.New(text)
			}
			got = text
			return nil
		})
		data := []byte(got)
		if format == "gzip" {
			z, err := gzip.NewReader(bytes.NewReader(data))
			require.NoError(t, err)
			data, err = io.ReadAll(z)
			require.NoError(t, err)
		}
		require.GreaterOrEqual(t, len(data), len(content))
		require.True(t, bytes.Equal(content, data[:len(content)]), "%s as %s", kind, format)
		require.Empty(t, bytes.Trim(data[len(content):], "\x00"))
	}
}
