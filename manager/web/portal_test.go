package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"vmop/manager/web/fleet"
	"vmop/test/browser"
	"vmop/test/wait"
)

// canary is part of every value of a VM that its user must not see.
const canary = "canary"

// mine returns a VM that guest may start, with the canary in all other values.
func mine(state fleet.State) *fleet.VM {
	vm := sample("mine", state)
	vm.Labels = map[string]string{"may": "start", "team": canary}
	vm.Type, vm.Node, vm.File, vm.Message, vm.Reason, vm.SSH = canary, canary, canary, canary, canary, canary
	vm.Addresses, vm.Drives = []fleet.Address{{Address: canary}}, []fleet.Drive{{Name: canary, Medium: canary}}
	vm.RestartAwaitingChanges = []fleet.Change{{
		Path: canary, Operation: "replace", CurrentValue: canary, DesiredValue: canary,
	}}
	vm.Problems = []fleet.Problem{{Path: canary, Message: canary}}
	vm.Conditions = []fleet.Condition{{Type: canary, Status: "True", Reason: canary, Message: canary}}
	vm.Details = []fleet.Detail{{Key: canary, Value: canary}}
	return vm
}

// foreign returns a VM that guest has no permission for.
func foreign(name string, state fleet.State) *fleet.VM {
	vm := sample(name, state)
	vm.CPUs.Now = 77
	return vm
}

// The portal's page and stream contain nothing about other VMs, and about the user's own VMs only what the card shows.
func TestPortalTellsNothingElse(t *testing.T) {
	t.Parallel()
	p := newPlay(t, mine(fleet.Running), foreign("stranger", fleet.Running))
	p.roles(map[string][]string{"staff": {"VmAccess"}})
	_, page := p.call("GET", "/portal", "", "Test-User", "guest", "Sec-Fetch-Mode", "navigate")
	require.Contains(t, page, `id="card-mine"`)
	require.Contains(t, page, "Debian GNU/Linux 12")
	e := p.follow("/live?portal=1", "Test-User", "guest")
	_, first := e.next()
	require.Contains(t, first, `id="card-mine"`)

	p.Put(foreign("stranger", fleet.Paused))
	p.Put(foreign("newcomer", fleet.Running))
	p.Put(mine(fleet.Failed))
	_, second := e.next()
	require.Contains(t, second, "Failed")
	require.NotContains(t, second, `id="cards"`, "only the card")
	for _, text := range []string{page, first, second} {
		require.NotContains(t, text, canary)
		require.NotContains(t, text, "stranger")
		require.NotContains(t, text, "newcomer")
	}
	p.Remove("mine")
	_, third := e.next()
	require.Contains(t, third, "No virtual machines available")
}

// A visitor who may use only the portal gets no other page, and is redirected there.
func TestPortalOnly(t *testing.T) {
	t.Parallel()
	p := newPlay(t, mine(fleet.Running))
	p.roles(map[string][]string{"staff": {"VmAccess"}})
	as := []string{"Test-User", "guest", "Sec-Fetch-Mode", "navigate"}
	answer, _ := p.call("GET", "/", "", as...)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/portal", answer.Header.Get("Location"))
	for _, path := range []string{"/vms/mine", "/vms/mine/plan", "/vms/mine/definition"} {
		answer, text := p.call("GET", path, "", as...)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, path)
		require.NotContains(t, text, canary)
	}
	for _, path := range []string{"/live?", "/live?vm=mine"} {
		name, _ := p.follow(path, as...).next()
		require.Equal(t, "gone", name, path)
	}
	answer, _ = p.call("POST", "/vms/mine/do", "do=start", as...)
	require.Equal(t, "/", answer.Header.Get("Location"), "without scripts, too")

	p.roles(map[string][]string{"staff": {"VmMgmt"}})
	answer, _ = p.call("GET", "/portal", "", as...)
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	answer, _ = p.call("GET", "/vms/mine", "", as...)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	name, _ := p.follow("/live?portal=1", as...).next()
	require.Equal(t, "gone", name)

	p.roles(map[string][]string{"staff": {}})
	answer, text := p.call("GET", "/", "", as...)
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Contains(t, text, "You do not have permission to view this page.")
}

// Permissions filter the list: rows, totals, charts, the stream, and actions on several VMs.
func TestListIsFiltered(t *testing.T) {
	t.Parallel()
	p := newPlay(t, mine(fleet.Running), foreign("stranger", fleet.Running))
	for i := range 3 {
		p.server.series.addPoint(time.Now().Add(time.Duration(i-3)*time.Minute), fleet.UseOf(p.List()))
	}
	_, page := p.call("GET", "/", "")
	require.Contains(t, page, "79</b>", "the administrator's CPUs")
	require.Contains(t, page, `class="chart"`)
	_, page = p.call("GET", "/", "", "Test-User", "guest")
	require.Contains(t, page, "<b>2</b><span>CPUs in use")
	require.Contains(t, page, "of 1 running")
	require.NotContains(t, page, `class="chart"`, "which is the sum of all")
	for _, query := range []string{"stranger", "77", "state:running"} {
		_, page = p.call("GET", "/?q="+url.QueryEscape(query), "", "Test-User", "guest")
		require.NotContains(t, page, `id="vm-stranger"`)
	}
	e := p.follow("/live?", "Test-User", "guest")
	_, data := e.next()
	require.NotContains(t, data, "stranger")
	p.Put(foreign("stranger", fleet.Paused))
	p.Put(mine(fleet.Paused))
	_, data = e.next()
	require.Contains(t, data, `id="vm-mine"`)
	require.NotContains(t, data, "stranger")
	require.NotContains(t, data, `class="chart"`)

	answer, text := p.call("POST", "/do", "do=start&vm=mine&vm=stranger&vm=novm", "Test-User", "guest")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Equal(t, []string{"guest start mine"}, p.done)
	require.Equal(t, "stranger: This virtual machine does not exist.\n"+
		"novm: This virtual machine does not exist.", strings.TrimSpace(text), "the one as the other")
}

// A card's buttons match the permissions, and show why they are disabled. The card is busy while the VM changes its
// state.
func TestCards(t *testing.T) {
	t.Parallel()
	used := mine(fleet.Running)
	used.Labels = map[string]string{"may": "accessConsole", "used-by": "bob"}
	p := newPlay(t, used)
	card := func() string {
		_, page := p.call("GET", "/portal", "", "Test-User", "guest")
		from := strings.Index(page, "<li id=\"card-")
		require.Positive(t, from, page)
		return html.UnescapeString(page[from:strings.Index(page, "</li>")])
	}
	text := card()
	for _, button := range []string{"start", "stop", "reset"} {
		require.Contains(t, text, `<button id="`+button+`-mine" class="`)
		require.Contains(t, text, `disabled title="you do not have the permission `+button+`"`)
	}
	require.Contains(t, text, `<button id="screen-mine" disabled title="bob is using the console;`)
	require.Contains(t, text, "In use by bob")

	used.Labels["may"] = "*"
	p.Put(used)
	text = card()
	require.Contains(t, text, `<a class="button primary" id="screen-mine" href="/vms/mine/screen"`)
	require.Contains(t, text, `id="start-mine" class="" disabled title="not available in the state “Running”"`)
	require.NotContains(t, text, "aria-busy")
	ending := *used
	ending.Wanted = false
	p.Put(&ending)
	require.Contains(t, card(), `aria-busy="true"`)
	for state, wanted := range map[fleet.State]bool{fleet.Starting: true, fleet.Stopped: true, fleet.Stopping: false} {
		vm := mine(state)
		vm.Wanted = wanted
		p.Put(vm)
		text = card()
		require.Contains(t, text, `aria-busy="true"`, state)
	}
	stopped := mine(fleet.Stopped)
	stopped.Wanted, stopped.Labels["may"] = false, "*"
	p.Put(stopped)
	text = card()
	require.Contains(t, text, `<button id="console-mine" disabled title="not available in the state “Stopped”"`)
	require.NotContains(t, text, "aria-busy")
	p.Put(mine(fleet.Failed))
	require.Contains(t, card(), "Ask your administrator for the reason")
}

// A guest's operating system has its icon, whatever name it reports.
func TestBadges(t *testing.T) {
	t.Parallel()
	icons, err := staticFiles.ReadFile("static/icons.svg")
	require.NoError(t, err)
	for id, want := range map[string]string{
		"debian": "os-debian", "mswindows": "os-windows", "rocky": "os-redhat", "gentoo": "os-linux", "": "os-unknown",
		`"><script>`: "os-linux",
	} {
		require.Equal(t, want, systemIcon(&fleet.VM{OSID: id}))
	}
	for _, icon := range badges {
		require.Contains(t, string(icons), `id="os-`+icon+`"`)
	}
}

// Two users who view the same VM both see each other's actions without a reload.
func TestPortalInBrowser(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("desk", fleet.Stopped), sample("hostile<b>", fleet.Stopped))
	one, two := browser.New(t), browser.New(t)
	for _, b := range []*browser.Browser{one, two} {
		b.Open(p.http.URL+"/portal", "light", 1280)
		b.Do("mark the page", chromedp.Evaluate[chromedp.Void](`void (window.mark = 1)`))
	}
	one.Do("start", chromedp.Click(chromedp.CSS("#start-desk")))
	wait.Until(t, func() bool { return p.has("admin start desk") })
	p.Put(sample("desk", fleet.Starting))
	for _, b := range []*browser.Browser{one, two} {
		b.Do("busy", browser.Holds(`document.querySelector("#card-desk").ariaBusy == "true"`))
	}
	p.Put(sample("desk", fleet.Running))
	for _, b := range []*browser.Browser{one, two} {
		b.Do("running", browser.Holds(`document.querySelector("a#screen-desk") && !document.querySelector("#card-desk").ariaBusy &&
			window.mark === 1`))
		b.Do("used by another", browser.Holds(
			`document.querySelector("#card-desk .used").textContent.includes("In use by bob")`))
	}
}
