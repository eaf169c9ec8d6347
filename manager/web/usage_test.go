package web

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/tier"
)

// Rates are growth per second for any interval, and never negative after a counter reset.
func TestRates(t *testing.T) {
	t.Parallel()
	sample := func(seconds, n int64) fleet.Sample {
		return fleet.Sample{At: then.Add(time.Duration(seconds) * time.Second), Read: n}
	}
	got := growthRates([]fleet.Sample{
		sample(0, 100), sample(30, 160), sample(90, 160), sample(90, 170), sample(100, 5), sample(101, 12),
	}, func(s fleet.Sample) float64 { return float64(s.Read) })
	require.Equal(t, curve{top: 7, dots: []dot{
		{then, 2}, {then.Add(30 * time.Second), 0}, {then.Add(100 * time.Second), 7},
	}}, got)
	require.Zero(t, lastValue(curve{}))
}

// A VM's charts show the measurements of its runner, and which values are not measured.
func TestUsage(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running), sample("off", fleet.Stopped))
	p.server.opts.Now = func() time.Time { return then.Add(time.Hour) }
	_, text := p.call("GET", "/vms/web/usage", "")
	require.Equal(t, 4, strings.Count(text, `<svg class="chart"`))
	require.Contains(t, text, `aria-label="Disks, read 127.5 KiB/s, written 2.1 KiB/s"`)
	require.NotContains(t, text, "<html", "a part of a page")
	for _, part := range []string{
		`<span>60 min ago</span><span>now</span>`, `<span>1 CPU</span><span>0.5 CPUs</span><span>0</span>`,
		`<th scope="col">Host memory</th>`, `<td class="number">read 127.5 KiB/s, written 2.1 KiB/s</td>`,
	} {
		require.Contains(t, text, part)
	}
	require.NotContains(t, text, "data-soon")
	_, text = p.call("GET", "/vms/web/usage", "", "Accept-Language", "de")
	require.Contains(t, text, "gelesen 127,5 KiB/s")
	_, text = p.call("GET", "/vms/off/usage", "")
	require.Contains(t, text, "Usage is measured while the virtual machine is running")

	view := p.server.visitOf(&http.Request{URL: &url.URL{}}).newUsageView(sample("web", fleet.Running))
	view.drawSamples([]fleet.Sample{{At: then}}, then)
	require.Equal(t, "The first values appear in a few seconds.", view.Waiting)
	view.drawSamples([]fleet.Sample{{At: then}, {At: then.Add(5 * time.Second)}}, then.Add(5*time.Second))
	require.Empty(t, view.Waiting, "there is something to see in the first minute")
	require.Equal(t, "5 min ago", view.Charts[0].From)
	require.Equal(t, `[[0.983,1795339800,"0 CPUs"]]`, view.Charts[0].Points)
	require.Contains(t, view.Charts[3].Note, "does not measure")
	require.Empty(t, view.Charts[3].Drawing)

	answer, _ := p.call("GET", "/vms/web/usage", "", "Test-User", "stranger")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	p.setFails(fleet.Refusal("the runner is busy"))
	answer, _ = p.call("GET", "/vms/web/usage", "")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
}

// Each origin in the plan links to its line. Modules are shown as text to visitors who may read the definition.
func TestSourceOfALine(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	_, plan := p.call("GET", "/vms/web/plan", "")
	require.Contains(t, plan, `<a href="/vms/web/source?line=3&amp;module=my.star#L3">my.star:3 launch</a>`)
	require.Contains(t, plan, `?line=14&amp;module=%40vmtypes%2F%2Flib%2Fmemory.star#L14`)
	_, text := p.call("GET", "/vms/web/source?module=my.star&line=2", "")
	require.Contains(t, text, `<li id="L2" class="marked"><code><mark>def launch(vm, host):</mark></code></li>`)
	require.Contains(t, text, `<code># &lt;b&gt;</code>`)
	require.Equal(t, 3, strings.Count(text, `<li id="L`))
	for _, line := range []string{"0", "99", "x", `"><script>`} {
		_, text = p.call("GET", "/vms/web/source?module=my.star&line="+url.QueryEscape(line), "")
		require.NotContains(t, text, `class="marked"`)
	}
	answer, _ := p.call("GET", "/vms/web/source?module=../../etc/passwd", "")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
	p.allow("guest", "start")
	answer, _ = p.call("GET", "/vms/web/source?module=my.star", "", "Test-User", "guest")
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Equal(t, originView{Text: "nowhere"}, originOf(sample("web", fleet.Running), "nowhere"))
}

// The page of the plan loads the devices of a running VM. Their lines link to the source. A refusal is shown instead of
// the table, and visitors who may not read the definition get neither.
func TestDevicesOfAVM(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running), sample("off", fleet.Stopped))
	_, plan := p.call("GET", "/vms/web/plan", "")
	require.Contains(t, plan, `data-load="/vms/web/devices"`)
	_, plan = p.call("GET", "/vms/off/plan", "")
	require.NotContains(t, plan, "vmdevices")

	_, text := p.call("GET", "/vms/web/devices", "")
	require.NotContains(t, text, "data-load", "it would close what the visitor has opened")
	for _, want := range []string{
		"<summary>/dev/vdb, /home</summary>", "<code>00:10.0</code>", "virtio-blk-pci <code>disk1</code>",
		`<code>vm.drives[1]</code> <span class="soft">web.yaml:12</span>`, "-blockdev node-name=disk1-format,driver=raw",
		`line=40&amp;module=%40vmtypes%2F%2Flib%2Fdisks.star#L40">@vmtypes//lib/disks.star:40 disk</a>`,
		">changed at my.star:4 launch</code>", "<td>host bridge</td>",
		"The guest agent does not answer.",
	} {
		require.Contains(t, text, want)
	}
	p.setFails(fleet.Refusal("cannot list the devices: restart the VM"))
	answer, text := p.call("GET", "/vms/web/devices", "")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, text, "cannot list the devices: restart the VM")
	require.NotContains(t, text, "<table>")
	require.NotContains(t, text, "guest agent")
	p.setFails(nil)
	p.allow("guest", "start")
	for _, path := range []string{"/vms/web/devices", "/api/v1/vms/web/devices"} {
		answer, text = p.call("GET", path, "", "Test-User", "guest")
		require.Equal(t, http.StatusForbidden, answer.StatusCode)
		require.NotContains(t, text, "vdb")
	}
}

// The charts appear without moving the content below.
func TestUsageInBrowser(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.server.opts.Now = func() time.Time { return then.Add(time.Hour) }
	b := browser.New(t)
	b.Open(p.http.URL+"/vms/web", "light", 1280)
	const bottom = `document.querySelector("footer").getBoundingClientRect().top`
	before := browser.Value[float64](b, bottom)
	b.Do("charts", browser.Holds(`document.querySelectorAll("#vmusage svg").length == 4`))
	require.InDelta(t, before, browser.Value[float64](b, bottom), 1)
	b.Open(p.http.URL+"/vms/web/plan", "light", 1280)
	b.Do("the source", chromedp.Click(chromedp.CSS(`a[href$="#L3"]`)), chromedp.WaitVisible(chromedp.CSS("#L3.marked")))
}

// Scales end at round values.
func TestNiceScales(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]float64{0: 0.1, 0.12: 0.2, 0.7: 1, 1: 1, 3: 5, 7: 10, 70: 100} {
		require.InDelta(t, want, niceDecimal(value), 1e-9)
	}
	for value, want := range map[float64]float64{0: 1 << 10, 1 << 20: 1 << 20, 3 << 20: 4 << 20} {
		require.InDelta(t, want, niceBytes(value), 0)
	}
}

// A chart shows the value under the pointer, and stays as it is when it is loaded again.
func TestReadingInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.server.opts.Now = func() time.Time { return then.Add(time.Hour) }
	b := browser.New(t)
	b.Open(p.http.URL+"/vms/web", "light", 1280)
	b.Do("charts", browser.Holds(`document.querySelectorAll("#vmusage svg").length == 4`))
	const move = `(() => { const plot = document.querySelectorAll(".plot")[2], r = plot.getBoundingClientRect();
		plot.dispatchEvent(new PointerEvent("pointermove", {bubbles: true, clientX: r.left + r.width * %s, clientY: r.top + 9})) })()`
	for part, text := range map[string]string{"0.5": "read 64", "0.99": "read 126"} {
		b.Do("point", chromedp.Evaluate[chromedp.Void](`void `+strings.Replace(move, "%s", part, 1)),
			browser.Holds(`/^\d\d.\d\d.* · `+text+`.*, written /.test(document.querySelector(".reading").textContent)`))
		b.Layout("reading at " + part)
	}
	b.Do("away", chromedp.Evaluate[chromedp.Void](
		`void document.querySelector("h1").dispatchEvent(new PointerEvent("pointermove", {bubbles: true}))`),
		browser.Holds(`!document.querySelector(".reading")`))
}

// A chart has steps between values, on a scale that contains all values, up to its end.
func TestDraw(t *testing.T) {
	t.Parallel()
	at := func(second int) time.Time { return then.Add(time.Duration(second) * time.Second) }
	c := curveOf([]int{0, 25, 50}, at, func(second int) float64 { return float64(2 + second%50) })
	require.Equal(t, curve{[]dot{{at(0), 2}, {at(25), 27}, {at(50), 2}}, 27}, c)
	require.Equal(t, template.HTML(`<svg class="chart" viewBox="0 0 240 48" preserveAspectRatio="none" role="img" `+
		`aria-label="a &lt; b"><path class="line1" d="M0.0 24.0H120.0V2.0H240"/></svg>`),
		drawCurves(at(0), at(100), "a < b", curve{}, curve{[]dot{{at(0), 1}, {at(50), 2}}, 2}))
}
