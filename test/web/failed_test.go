package web

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
)

// A VM whose first start fails has a page that begins with the cause, at every width, until it is started again. When
// it is deleted and made again, the form asks for its data.
func TestAFailedStartIsExplained(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	disk := c.path("home/.local/share/vmrunner/big/disk.img")
	require.NoError(t, os.MkdirAll(c.path("home/.local/share/vmrunner/big"), 0o700))
	require.NoError(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	b := browser.New(t)
	c.enter(b)
	b.Open(c.address("/new?name=big&cpus=1&ram=900+TiB&disk=2+MiB&network=none&option.panic=none"), "light", 1280)
	b.Do("ask", is("#preview", "has left data in "+disk[:len(disk)-len("/disk.img")]+": disk.img (1 MiB)"))
	b.Do("choose", chromedp.SetValue(chromedp.CSS("[name=data]"), "fresh"), click("button[value=create]"),
		chromedp.WaitVisible(chromedp.CSS("#vmhead")),
		is("#vmalerts .bad", "vm.maximumRam: is 900 TiB, and this computer has"), is("#vmhead", "Failed"),
		is("#vmfacts", "vmrunner log big"))
	require.NoFileExists(t, disk)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{390, 820, 1280} {
			b.Open(c.address("/vms/big"), scheme, width)
			require.True(t, browser.Value[bool](b, `document.documentElement.scrollWidth <= innerWidth`), "%d", width)
			b.Picture(fmt.Sprintf("failed-start-%s-%d", scheme, width))
		}
	}
	b.Accessible("../..")
	text, err := os.ReadFile(c.path("vms/big.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "900 TiB")
}
