package web

import (
	"fmt"
	"os"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/test/browser"
)

// The page of a VM with a failed first start begins with the cause, at every width, until the VM is started again. If a
// deleted VM with the same name has left data, the form asks what to do with it.
func TestAFailedStartIsExplained(t *testing.T) {
	t.Parallel()
	c := newComputer(t)
	disk, kernel := c.path("home/.local/share/vmrunner/big/disk.img"), c.path("kernel")
	require.NoError(t, os.MkdirAll(c.path("home/.local/share/vmrunner/big"), 0o700))
	require.NoError(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	require.NoError(t, os.WriteFile(kernel, []byte("no kernel\n"), 0o600))
	b := browser.New(t)
	c.enter(b)
	b.Open(c.address("/new?name=big&cpus=1&ram=64+MiB&disk=2+MiB&network=none&option.panic=none"), "light", 1280)
	b.Do("by hand", replace("  vm:\n", "  vm:\n    accelerator: tcg\n    firmware: bios\n    kernel: {image: "+kernel+"}\n"))
	b.Do("ask", is("#preview", "has left data in "+disk[:len(disk)-len("/disk.img")]+": disk.img (1 MiB)"))
	b.Do("choose", chromedp.SetValue(chromedp.CSS("[name=data]"), "fresh"), click("button[value=create]"),
		chromedp.WaitVisible(chromedp.CSS("#vmhead")),
		is("#vmalerts .bad", "vm.kernel.image: "+kernel+" is not a Linux kernel"), is("#vmhead", "Failed"),
		is("#vmfacts", "vmrunner log big"))
	fresh, err := os.Stat(disk)
	require.NoError(t, err)
	require.EqualValues(t, 2<<20, fresh.Size(), "not the one of the deleted VM")
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
	require.Contains(t, string(text), kernel)
}
