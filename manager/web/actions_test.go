package web

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// Each action requires its permission, and has its effect.
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
		{"/vms/web/size", "cpus=9&ram=4+GiB", "resize", "guest resize web cpus 9 ram 4294967296"}, // beyond the maximum
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

// An invalid form is reported, and changes nothing.
func TestWrongForms(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	for _, c := range []struct {
		path, form string
		code       int
		text       string
	}{
		{"/vms/web/do", "do=explode", 400, "The form data is not valid."},
		{"/vms/web/do", "", 400, "The form data is not valid."},
		{"/vms/web/do", "do=%zz", 400, "The form data is not valid."},
		{"/vms/stranger/do", "do=stop", 404, "This virtual machine does not exist."},
		{"/do", "do=stop", 400, "The form data is not valid."},
		{"/do", "do=stop&vm=stranger", 409, "stranger: This virtual machine does not exist."},
		{"/vms/web/size", "cpus=0", 409, "a whole number"},
		{"/vms/web/size", "cpus=many", 409, "a whole number"},
		{"/vms/web/size", "ram=12", 409, "a size such as"},
		{"/vms/web/size", "ram=lots", 409, "a size such as"},
	} {
		answer, text := p.call("POST", c.path, c.form)
		require.Equal(t, c.code, answer.StatusCode, c.form)
		require.Contains(t, text, c.text, c.form)
	}
	answer, _ := p.call("POST", "/vms/web/size", "cpus=2&ram=1+GiB") // unchanged
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Empty(t, p.done)
}

// Without scripts, a page asks for confirmation of a dangerous action.
func TestConfirmation(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	answer, text := p.call("POST", "/vms/web/do", "do=kill", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, text, "Power off web?")
	require.Contains(t, text, `name="sure" value="yes"`)
	require.Contains(t, text, `name="do" value="kill"`)
	require.Empty(t, p.done)
	_, text = p.call("GET", "/", "")
	require.Contains(t, text, `<button name="do" value="stop" data-question`, "not disabled: a script does that")
	answer, _ = p.call("POST", "/vms/web/do", "do=kill&sure=yes", "Sec-Fetch-Mode", "navigate")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, []string{"admin kill web"}, p.done)
}

// Pages of other sites can't change anything.
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

// A screenshot is taken once for all viewers, and again when it is old.
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
		p.server.pictures.keepPicture(string(rune('A'+i)), picture{at: now})
	}
	require.LessOrEqual(t, len(p.server.pictures.taken), pictureCount)
}

// A button and a program show why the fleet refuses an action. The VM's page shows the policy.
func TestRefusedButtons(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Running)
	vm.RunPolicy, vm.Can[fleet.Stop], vm.Can[fleet.Kill], vm.Can[fleet.Restart] = "AlwaysOn", false, false, false
	const policy, kind = "the <b>policy</b> is AlwaysOn", "no such option"
	vm.Refused = map[fleet.Action]string{fleet.Stop: policy, fleet.Restart: kind, fleet.Start: "it is Running"}
	p := newPlay(t, vm)
	_, page := p.call("GET", "/vms/web", "")
	require.Contains(t, page, `id="stop-web" class="" disabled title="the &lt;b&gt;policy&lt;/b&gt; is AlwaysOn"`)
	require.Contains(t, page, `id="restart-web" class="" disabled title="no such option"`)
	require.NotContains(t, page, `id="start-web"`)
	require.NotContains(t, page, `id="kill-web"`)
	require.Contains(t, page, `<dt>Run policy</dt><dd><span>AlwaysOn</span></dd>`)
	p.allow("guest", "accessConsole", "stop")
	for path, want := range map[string]string{
		"stop": policy, "restart": kind, "kill": "not available in the state “Running”",
	} {
		_, _, why := p.ask("POST", "/vms/web/"+path, "")
		require.Equal(t, want, why.Detail)
	}
}
