// Package browser shows pages in a real Chromium, for tests. Every complaint of the browser fails the test: a script
// error, a policy violation, or a missing file. Tests can save pictures of pages (in the folder that the variable
// PICTURES names). They can also check with axe-core that a page is usable with a keyboard or a screen reader.
package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// Browser is a Chromium with one tab. It ends with the test.
type Browser struct {
	t        testing.TB
	ctx      context.Context
	mutex    sync.Mutex
	problems []string
	ignored  []string
}

// Patience is the maximum time for anything on a page.
const Patience = 2 * time.Minute

// New starts a browser.
func New(t testing.TB) *Browser {
	t.Helper()
	profile, err := os.MkdirTemp("", "vmop-browser")
	require.NoError(t, err)
	t.Cleanup(func() { // Chromium's processes may still write into it
		for range 100 {
			if os.RemoveAll(profile) == nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(profile), chromedp.WindowSize(1280, 860))
	for _, flag := range []string{
		"disable-quic", "disable-component-update", "disable-background-networking", "disable-sync",
	} {
		opts = append(opts, chromedp.Flag(flag, true))
	}
	opts = append(opts, chromedp.Flag("host-resolver-rules",
		"MAP * ~NOTFOUND, EXCLUDE 127.*, EXCLUDE localhost, EXCLUDE *.localhost"))
	ctx, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	require.NoError(t, chromedp.Do(ctx), "start Chromium (package chromium)") // Chromium lives as long as this context
	b := &Browser{t: t, ctx: ctx}
	messages := chromedp.Console(ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			b.noteComplaint(message.String())
		}
	}()
	return b
}

// Context returns the context for chromedp's own functions.
func (b *Browser) Context() context.Context { return b.ctx }

// Ignore ignores earlier and later complaints that contain a text, because the test provokes them.
func (b *Browser) Ignore(text string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.ignored = append(b.ignored, text)
	kept := b.problems[:0]
	for _, p := range b.problems {
		if !strings.Contains(p, text) {
			kept = append(kept, p)
		}
	}
	b.problems = kept
}

// noteComplaint records a complaint unless it is ignored.
func (b *Browser) noteComplaint(message string) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	ignored := slices.ContainsFunc(b.ignored, func(text string) bool { return strings.Contains(message, text) })
	if !ignored {
		b.problems = append(b.problems, message)
	}
}

// Do runs actions. It fails the test if an action fails or the browser complains.
func (b *Browser) Do(what string, actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, Patience)
	defer cancel()
	err := chromedp.Do(ctx, actions...)
	page := ""
	if err != nil {
		page, _ = chromedp.Run(b.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText`))
	}
	b.mutex.Lock()
	defer b.mutex.Unlock()
	require.NoError(b.t, err, "%s; the browser says %q, the page is %s", what, b.problems, page)
	require.Empty(b.t, b.problems, what)
}

// Holds waits until an expression is true, also on a page that the browser is about to open.
func Holds(js string) chromedp.Action[chromedp.Void] {
	poll := chromedp.Poll[chromedp.Void](js, chromedp.WithPollingTimeout(Patience))
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		for {
			v, err := poll(ctx, t)
			if err == nil || ctx.Err() != nil || !isAboutOldPage(err) {
				return v, err
			}
		}
	}
}

// isAboutOldPage reports whether an expression was not evaluated because the browser left the page.
func isAboutOldPage(err error) bool {
	return slices.ContainsFunc([]string{
		"Cannot find context with specified id", "Execution context was destroyed", "Inspected target navigated",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// Press clicks the element that a CSS selector matches, as soon as it exists. A click by coordinates would miss an
// element that a changing page moves.
func Press(selector string) chromedp.Action[chromedp.Void] {
	return Holds(fmt.Sprintf("(e => { e?.click(); return e !== null })(document.querySelector(%q))", selector))
}

// Value returns the value of an expression.
func Value[T any](b *Browser, js string) T {
	b.t.Helper()
	value, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](js))
	require.NoError(b.t, err, js)
	return value
}

// Open shows a page with a color scheme (light, dark) and a width, and requires that the page isn't wider than the
// window.
func (b *Browser) Open(address, scheme string, width int64) {
	b.t.Helper()
	features := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme},
	}}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, features)
	require.NoError(b.t, err)
	b.Do(address, chromedp.EmulateViewport(width, 860), chromedp.Navigate(address))
	require.Empty(b.t, Value[string](b, sticksOut), "%s is wider than %d", address, width)
}

// Speak sets the language that the browser requests.
func (b *Browser) Speak(language string) {
	b.t.Helper()
	_, err := chromedp.Call(b.ctx, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{
		Headers: network.Headers{"Accept-Language": language},
	})
	require.NoError(b.t, err)
}

// sticksOut returns the elements that make a page wider than its window.
const sticksOut = `document.documentElement.scrollWidth <= innerWidth ? "" :
	[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > innerWidth)
		.map(e => e.tagName + "#" + e.id + "." + e.className).join(" ")`

// Picture saves a picture of the page in the folder that PICTURES names, if it is set.
func (b *Browser) Picture(name string) {
	b.t.Helper()
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	picture := b.Shot()
	require.NoError(b.t, os.MkdirAll(folder, 0o755))
	require.NoError(b.t, os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644))
}

// Shot returns a picture of the whole page as PNG.
func (b *Browser) Shot() []byte {
	b.t.Helper()
	picture, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	require.NoError(b.t, err)
	return picture
}

// Accessible requires that axe-core finds no problems on the page. root is the module's folder, where
// tools/scripts/web-bundles has installed axe-core.
func (b *Browser) Accessible(root string) {
	b.t.Helper()
	axe, err := os.ReadFile(filepath.Join(root, "build/web/node_modules/axe-core/axe.min.js"))
	require.NoError(b.t, err, "tools/scripts/web-bundles -check installs axe-core")
	_, err = chromedp.Run(b.ctx, chromedp.Evaluate[bool](string(axe)+"; true"))
	require.NoError(b.t, err)
	found, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](
		`axe.run().then(r => r.violations.map(v => v.id + ": " + v.help + " " + v.nodes.map(n => n.html).join(" | ")).join("\n"))`,
		chromedp.EvalAwaitPromise))
	require.NoError(b.t, err)
	require.Empty(b.t, found)
}
