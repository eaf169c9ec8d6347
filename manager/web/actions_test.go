package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/manager/fleet"
)

// Each action needs its permission, and does what it says.
func TestActions(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, c := range []struct{ path, form, permission, done string }{
		{"/vms/web/do", "do=start", "start", "guest start web"},
		{"/vms/web/do", "do=stop", "stop", "guest stop web"},
		{"/vms/web/do", "do=kill", "stop", "guest kill web"},
		{"/vms/web/do", "do=restart", "stop", "guest restart web"},
		{"/vms/web/do", "do=reset", "reset", "guest reset web"},
		{"/vms/web/do", "do=pause", "stop", "guest pause web"},
		{"/vms/web/do", "do=resume", "start", "guest resume web"},
		{"/vms/web/do", "do=migrate", "stop", "guest migrate web"},
		{"/vms/web/do", "do=delete", "delete", "guest delete web"},
		{"/vms/web/size", "cpus=3&ram=1,25+GiB", "resize", "guest resize web cpus 3 ram 1342177280"},
		{"/vms/web/size", "cpus=2&ram=512m", "resize", "guest resize web ram 536870912"},
		{"/vms/web/medium", "drive=drive+0&medium=+x.iso", "edit", `guest insert web drive 0 "x.iso"`},
		{"/vms/web/medium", "drive=drive+0&medium=", "edit", `guest insert web drive 0 ""`},
		{"/do", "do=stop&vm=web", "stop", "guest stop web"},
	} {
		p.allow("guest", "accessConsole")
		p.done = nil
		answer, text := p.call("POST", c.path, c.form, "Test-User", "guest")
		require.Equal(t, map[bool]int{true: 409, false: 403}[c.path == "/do"], answer.StatusCode, c.form)
		require.Contains(t, text, "you do not have the permission "+c.permission)
		require.Empty(t, p.done)
		p.allow("guest", "accessConsole", v1Action(c.permission))
		answer, text = p.call("POST", c.path, c.form, "Test-User", "guest")
		require.Equal(t, http.StatusNoContent, answer.StatusCode, text)
		require.Equal(t, []string{c.done}, p.done)
	}
}

// What is wrong in a form is reported, and nothing is done.
func TestWrongForms(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, c := range []struct {
		path, form string
		code       int
		text       string
	}{
		{"/vms/web/do", "do=explode", 400, "The form has a mistake."},
		{"/vms/web/do", "", 400, "The form has a mistake."},
		{"/vms/web/do", "do=%zz", 400, "The form has a mistake."},
		{"/vms/stranger/do", "do=stop", 404, "There is no such virtual machine."},
		{"/do", "do=stop", 400, "The form has a mistake."},
		{"/do", "do=stop&vm=stranger", 409, "stranger: There is no such virtual machine."},
		{"/vms/web/size", "cpus=5", 409, "CPUs: from 1 to 4"},
		{"/vms/web/size", "cpus=0", 409, "CPUs: from 1 to 4"},
		{"/vms/web/size", "cpus=many", 409, "CPUs: from 1 to 4"},
		{"/vms/web/size", "ram=2+GiB", 409, "at most 1.5 GiB"},
		{"/vms/web/size", "ram=12", 409, "a size such as"},
		{"/vms/web/size", "ram=lots", 409, "a size such as"},
	} {
		answer, text := p.call("POST", c.path, c.form)
		require.Equal(t, c.code, answer.StatusCode, c.form)
		require.Contains(t, text, c.text, c.form)
	}
	answer, _ := p.call("POST", "/vms/web/size", "cpus=2&ram=1+GiB") // as it is
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Empty(t, p.done)
}

// Without scripts a dangerous action is asked about on a page.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	answer, text := p.call("POST", "/vms/web/do", "do=kill", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, text, "Power web off?")
	require.Contains(t, text, `name="sure" value="yes"`)
	require.Contains(t, text, `name="do" value="kill"`)
	require.Empty(t, p.done)
	_, text = p.call("GET", "/", "")
	require.Contains(t, text, `<button name="do" value="stop" data-question`, "not disabled: a script does that")
	answer, _ = p.call("POST", "/vms/web/do", "do=kill&sure=yes", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, []string{"admin kill web"}, p.done)
}

// Pages of other sites can't do anything.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, header := range [][]string{
		{"Origin", "http://evil.example"}, {"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
	} {
		for _, path := range []string{"/vms/web/do", "/do", "/vms/web/size", "/language"} {
			answer, text := p.call("POST", path, "do=kill&vm=web&cpus=1&language=de", header...)
			require.Equal(t, http.StatusForbidden, answer.StatusCode, path)
			require.Contains(t, text, "another site")
		}
	}
	require.Empty(t, p.done)
}

// A screenshot is taken once for all who look, and again when it is old.
func TestScreenshots(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	now := then
	p.server.opts.Now = func() time.Time { return now }
	for range 5 {
		answer, text := p.call("GET", "/vms/web/screenshot", "")
		require.Equal(t, "image/png", answer.Header.Get("Content-Type"))
		require.Equal(t, "\x89PNG of web", text)
	}
	require.Equal(t, 1, p.shots)
	now = now.Add(pictureAge)
	p.call("GET", "/vms/web/screenshot", "")
	require.Equal(t, 2, p.shots)
	for i := range 3 * pictureCount {
		p.server.pictures.keep(string(rune('A'+i)), picture{at: now})
	}
	require.LessOrEqual(t, len(p.server.pictures.taken), pictureCount)
}

// What a run policy leaves no choice for says so, on a button and to a program; the policy is on the VM's page.
func TestRunPoliciesOfButtons(t *testing.T) {
	t.Parallel()
	always, never := sample("always", fleet.Running), sample("never", fleet.Stopped)
	always.RunPolicy, always.Fixed, always.Can[fleet.Stop], always.Can[fleet.Kill] = "AlwaysOn", true, false, false
	never.RunPolicy, never.Fixed, never.Wanted, never.Can[fleet.Start] = "AlwaysOff", true, false, false
	p := newPlay(t, always, never)
	_, page := p.call("GET", "/vms/always", "")
	require.Contains(t, page, `id="stop-always" class="" disabled title="the run policy is AlwaysOn: to change that, edit the definition"`)
	require.NotContains(t, page, `id="kill-always"`)
	require.Contains(t, page, `id="restart-always"`)
	require.Contains(t, page, `<dt>Run policy</dt><dd><span>AlwaysOn</span></dd>`)
	_, page = p.call("GET", "/vms/never", "", "Accept-Language", "de")
	require.Contains(t, page, `id="start-never" class="" disabled title="die Laufregel ist AlwaysOff; sie steht in der Definition"`)
	p.allow("guest", "accessConsole", "start")
	_, _, why := p.ask("POST", "/vms/never/start", "")
	require.Equal(t, "the run policy is AlwaysOff: to change that, edit the definition", why.Detail)
}
