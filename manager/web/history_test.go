package web

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// The stream of a VM's page contains its events and conditions, the latest first, with the names of requesting users
// and with all texts escaped. Events are read only while the page is open.
func TestTimelineOfAVM(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.news = make(chan []fleet.Event)
	_, page := p.call("GET", "/vms/web/history", "")
	require.Contains(t, page, "Guest is running", "conditions are there at once")
	require.NotContains(t, page, "Not ready", "what is not the case has not happened")
	e := p.follow("/live?vm=web", "Accept-Language", "de")
	_, data := e.next()
	require.Contains(t, data, `<section id="vmhistory"`)
	p.news <- happened(then.Add(time.Hour))
	_, data = e.next()
	require.NotContains(t, data, "vmfacts", "nothing else has changed")
	require.Regexp(t, `(?s)CPUs oder RAM geändert von alice.*2 CPUs, 1536Mi.*Kein passender Knoten gefunden.*17-mal.*Pod web-0.*`+
		`Gestartet von alice</b></div>.*Gastsystem läuft`, data)
	require.Contains(t, data, "3 &lt;b&gt;Insufficient&lt;/b&gt; memory")
	require.Contains(t, data, "<b>Unheard of</b>", "what has no text has its reason")
	require.Contains(t, data, `datetime="2026-11-22T10:29:00Z"`, "the browser has its zone")

	p.setFails(fmt.Errorf("no connection"))
	name, _ := p.follow("/live?vm=web").next()
	require.Equal(t, "parts", name, "a page without events is one nevertheless")
}

// The timeline has each event once, and problems that are still there. Facts that always hold are left out.
func TestHappenings(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Running)
	vm.Conditions = []fleet.Condition{
		{Type: "Running", Status: "True", Reason: "VmStarted", Since: then},
		{Type: "Confined", Status: "True", Reason: "Confined", Since: then},
		{Type: "Reconciled", Status: "False", Reason: "Failed", Message: "no quota", Since: then},
		{Type: "RestartRequired", Status: "False", Reason: "NoChanges", Since: then},
	}
	p := newPlay(t, vm)
	v := p.server.visitOf(&http.Request{URL: &url.URL{}})
	var texts []string
	for _, e := range v.newHistoryView(vm, []fleet.Event{{At: then, Count: 1, Reason: "VmStarted"}}).Latest {
		texts = append(texts, e.Text)
	}
	require.Equal(t, []string{"Resources in the cluster do not match the definition", "Guest is running"}, texts)
}

// On one computer, the page with the history has the log, for users who may edit the VM.
func TestLogOfAVM(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running), sample("off", fleet.Stopped))
	_, page := p.call("GET", "/vms/web/history", "")
	require.Contains(t, page, `<code>level=INFO msg=&#34;&lt;b&gt;started&lt;/b&gt;`)
	require.Contains(t, page, `href="/vms/web/history#vmlog"`)
	_, page = p.call("GET", "/vms/off/history", "")
	require.Contains(t, page, "it was never started")
	p.allow("guest", "start")
	_, page = p.call("GET", "/vms/web/history", "", "Test-User", "guest")
	require.NotContains(t, page, "level=INFO")
}

// No events are read for a user who may not see the VM.
func TestTimelineIsForThoseWhoSeeTheVM(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.told = happened(then)
	name, data := p.follow("/live?vm=web", "Test-User", "stranger").next()
	require.Equal(t, "gone", name)
	require.NotContains(t, data, "alice")
}

// All viewers are shown with their modes, up to a limit.
func TestViewersAreNamed(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Running)
	vm.Viewers = []fleet.Viewer{
		{Kind: "vnc", Who: "bob", Since: then},
		{Kind: "vnc", Who: "<i>eve", Watches: true},
		{Kind: "serial", Who: "carol"},
	}
	for range mostViewers {
		vm.Viewers = append(vm.Viewers, fleet.Viewer{Kind: "vnc", Who: "crowd", Watches: true})
	}
	p := newPlay(t, vm)
	_, page := p.call("GET", "/vms/web", "")
	require.Regexp(t, `(?s)Viewers.*screen: bob.*screen: &lt;i&gt;eve, view only.*console: carol.*and 3 more`, page)
}
