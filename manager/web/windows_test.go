package web

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
)

// A window offers only what its visitor may do: media need permission to edit, and taking over a used console needs its
// own permission.
func TestWindowsFollowPermissions(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	page := func(path, user string) string {
		_, text := p.call("GET", path, "", "Test-User", user)
		return html.UnescapeString(text)
	}
	for _, path := range []string{"/vms/web/screen", "/vms/web/console"} {
		p.allow("guest", "accessConsole")
		text := page(path, "guest")
		require.NotContains(t, text, "debian.iso", "it is of the definition")
		require.Contains(t, text, `id="take" hidden disabled title="you do not have the permission takeConsole"`)
		p.allow("guest", "takeConsole", "edit")
		text = page(path, "guest")
		require.Contains(t, text, "debian.iso")
		require.Contains(t, text, `id="take" hidden title="Take over keyboard">`)
	}
	require.Contains(t, page("/vms/web/screen", "guest"), "In use by bob")
	require.NotContains(t, page("/vms/web/console", "guest"), "In use by bob", "he uses the screen")
	require.NotContains(t, page("/vms/web/screen", "bob"), "In use by")
	watched := sample("web", fleet.Running)
	watched.Viewers[0].Watches = true
	p.Put(watched)
	require.NotContains(t, page("/vms/web/screen", "guest"), "In use by", "bob only watches")
}

// Both viewers of a screen learn from the stream who is using it.
func TestTypistIsLive(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	e := p.follow("/live?vm=web&window=screen")
	_, data := e.next()
	require.Contains(t, data, "In use by bob")
	taken := sample("web", fleet.Running)
	taken.Viewers = []fleet.Viewer{{Kind: "vnc", Who: "bob", Watches: true}, {Kind: "vnc", Who: "zoe"}}
	p.Put(taken)
	_, data = e.next()
	require.Contains(t, data, "In use by zoe")
	require.NotContains(t, data, "windowmedia", "that has not changed")
}

// The script has every layout that the page offers, with a character for each key.
func TestLayoutsAreComplete(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("ts/src/layouts.ts")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?:plain|shift): ("(?:\\.|[^"\\])*")`).FindAllSubmatch(script, -1)
	require.Len(t, rows, 2*len(layouts))
	for _, row := range rows {
		text, err := strconv.Unquote(string(row[1]))
		require.NoError(t, err)
		require.Equal(t, 48, utf8.RuneCountInString(text), text)
	}
	for _, code := range layouts {
		require.Contains(t, string(script), "\n  \""+code+"\": {")
	}
}

// A user who opens a used console can watch, sees the reason, and can take over.
func TestTakeOverInBrowser(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.typed.Store(true)
	prompting(t, p)
	b := browser.New(t)
	b.Open(p.http.URL+"/vms/web/console", "light", 1280)
	b.Do("watching", chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=watching]`)),
		browser.Holds(`document.querySelector("#notice").textContent.includes("another client is using the keyboard")`))
	require.True(t, p.has("admin watch console of web"))
	b.Accessible("../..")
	b.Do("take over", chromedp.Click(chromedp.CSS("#take")),
		chromedp.WaitVisible(chromedp.CSS(`#terminal[data-state=connected]`)),
		chromedp.WaitNotVisible(chromedp.CSS("#take")))
	require.True(t, p.has("admin take console of web"))
	b.Do("read aloud", chromedp.Click(chromedp.CSS("#reader")),
		browser.Holds(`document.querySelector(".xterm-accessibility")?.textContent.includes("login:")`))
}

// The windows of a VM pass the same checks as in TestPictures, and their menus and dialogs stay inside.
func TestPicturesOfWindows(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, sample("vm-running", fleet.Running))
	p.typed.Store(true)
	prompting(t, p)
	b := browser.New(t)
	const inside = `document.documentElement.scrollHeight <= innerHeight &&
		[...document.querySelectorAll("[open], [open] > div")].every(e => {
			const r = e.getBoundingClientRect(); return r.left >= 0 && r.right <= innerWidth && r.bottom <= innerHeight })`
	show := func(name, path, opened, language, scheme string, width int64) {
		b.Speak(language)
		b.Open(p.http.URL+"/vms/vm-running/"+path, scheme, width)
		b.Do(name, browser.Holds(`document.querySelector("#notice").textContent && (!document.querySelector("#terminal") ||
			document.querySelector("[data-state=watching]"))`))
		b.Do(name, chromedp.Evaluate[chromedp.Void]("void ("+opened+")"))
		if !strings.HasSuffix(name, "-tab") || width > 390 { // on a phone, the page around a tab scrolls
			b.Do(name, browser.Holds(inside))
		}
		b.Picture(fmt.Sprintf("%s-%s-%s-%d", name, language, scheme, width))
		b.Layout(fmt.Sprintf("%s, %s, %s, %d", name, language, scheme, width))
	}
	for _, page := range []struct{ name, path, opened string }{
		{"console", "console", "0"},
		{"console-tab", "console/page", "0"},
		{"screen-tab", "screen/page", "0"},
		{"console-power", "console", `document.querySelector(".toolbar > :last-child").open = true`},
		{"screen", "screen", "0"},
		{"screen-keys", "screen", `document.querySelector(".menu").open = true`},
		{"screen-media", "screen", `document.querySelector("#windowmedia details").open = true`},
		{"screen-typing", "screen", `document.querySelector("#typing").showModal()`},
	} {
		for _, width := range widths {
			show(page.name, page.path, page.opened, "de", "light", width)
			show(page.name, page.path, page.opened, "en", "light", width)
			b.Accessible("../..")
			show(page.name, page.path, page.opened, "en", "dark", width)
		}
	}
}

// prompting simulates a guest on each console that writes a prompt and reads.
func prompting(t *testing.T, p *play) {
	t.Helper()
	go func() { // until the test ends
		for far := range p.conns {
			go func() { // until the browser disconnects
				_, _ = far.Write([]byte("login: "))
				_, _ = io.Copy(io.Discard, far)
			}()
		}
	}()
	t.Cleanup(func() { close(p.conns) })
}
