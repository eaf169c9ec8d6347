package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// A check shows what takes effect when, and saves nothing; errors have their lines.
func TestEditIsCheckedFirst(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	_, page := p.call("GET", "/vms/web/edit", "")
	require.Contains(t, page, "userData: "+fleet.Kept)
	require.Contains(t, page, `name="version" value="1"`)
	_, page = p.submit("/vms/web/edit", "do", "check", "version", "1", "definition", "mine: <b>\r\n")
	for _, part := range []string{
		"is valid", "Takes effect immediately", "&lt;b&gt;2 GiB", "Needs a restart", "vm.maximumCpus", "-m 512M",
		"mine: &lt;b&gt;\n</textarea>", "there is no such file",
	} {
		require.Contains(t, page, part)
	}
	p.check.Running, p.check.Now, p.check.Later = false, nil, nil
	_, page = p.submit("/vms/web/edit", "do", "check", "version", "1", "definition", "mine: 1")
	require.Contains(t, page, "The changes take effect when the VM starts.")
	p.faulty["wrong"] = fleet.Faults{{Line: 7, Message: "<i>no</i>"}}
	for do, code := range map[string]int{"check": http.StatusOK, "save": http.StatusUnprocessableEntity} {
		answer, page := p.submit("/vms/web/edit", "do", do, "version", "1", "definition", "wrong\n")
		require.Equal(t, code, answer.StatusCode)
		require.Contains(t, page, `data-line="7"`)
		require.Contains(t, page, "&lt;i&gt;no&lt;/i&gt;")
		require.Contains(t, page, "wrong\n</textarea>", "what was typed stays")
	}
	answer, _ := p.submit("/vms/web/edit", "do", "save", "definition", "x")
	require.Equal(t, http.StatusBadRequest, answer.StatusCode, "without a version it would be a new VM")
	require.Empty(t, p.done)
	answer, _ = p.submit("/vms/web/edit", "do", "save", "version", "1", "definition", "mine: 1\r\n")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "mine: 1\n", p.saved)
	require.True(t, p.has("admin replace web"))
}

// A user can't overwrite another user's unseen change, and keeps the edited text.
func TestEditConflict(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.version = "2"
	answer, page := p.submit("/vms/web/edit", "do", "save", "version", "1", "definition", "mine: 1")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Contains(t, page, "Someone else has changed")
	require.Contains(t, page, "mine: 1</textarea>", "my text")
	require.Contains(t, page, "name: &lt;b&gt;", "theirs")
	require.Contains(t, page, `name="version" value="2"`)
	require.Empty(t, p.saved)
	answer, _ = p.submit("/vms/web/edit", "do", "save", "version", "2", "definition", "mine: 1")
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "mine: 1", p.saved)
}

// Deleting a VM requires typing its name, and the page lists what stays.
func TestDelete(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Stopped), sample("busy", fleet.Running))
	answer, _ := p.submit("/vms/web/do", "do", "delete")
	require.Equal(t, "/vms/web/delete", answer.Header.Get("Location"), "the page asks for confirmation")
	_, page := p.call("GET", "/vms/web/delete", "")
	require.Contains(t, page, "<code>/data/web</code>")
	answer, page = p.submit("/vms/web/delete", "name", "web2<b>")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, page, "The name does not match.")
	require.Contains(t, page, `value="web2&lt;b&gt;"`)
	require.Empty(t, p.done)
	_, page = p.call("GET", "/vms/busy/delete", "")
	require.Contains(t, page, "not available in the state “Running”")
	p.left = nil
	_, page = p.call("GET", "/vms/web/delete", "")
	require.Contains(t, page, "No other resources are kept")
	answer, _ = p.submit("/vms/web/delete", "name", "web")
	require.Equal(t, "/", answer.Header.Get("Location"))
	require.True(t, p.has("admin delete web"))
}
