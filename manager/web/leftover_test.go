package web

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// The form for a new VM asks what to do with the data of a deleted VM. Without a choice, the JSON interface refuses the
// VM.
func TestDataOfADeletedVMAreAskedFor(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	submit := func(do, data string) (*http.Response, string) {
		return p.submit("/new", "do", do, "name", "web", "type", "cloud", "cpus", "1", "ram", "1 GiB", "data", data)
	}
	p.check.Leftover = "/data/web: disk.img (8 GiB)"
	answer, page := submit("create", "")
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, page, "has left data in /data/web: disk.img (8 GiB).")
	require.Contains(t, page, `<a href="#f-data">`)
	require.Contains(t, faultsAt(page, "data"), "Choose whether the new VM gets")
	_, page = submit("check", "fresh")
	require.Contains(t, page, `<option value="fresh" selected>`)
	require.Empty(t, p.done)
	answer, _ = submit("create", "fresh")
	require.Equal(t, "/vms/web", answer.Header.Get("Location"))
	require.True(t, p.has("admin create web with data fresh"), "%v", p.done)

	define := func(query string) (int, string) {
		answer, body := p.call("PUT", "/api/v1/vms/db/definition"+query, "name: db\n", "If-None-Match", "*")
		return answer.StatusCode, body
	}
	code, body := define("")
	require.Equal(t, http.StatusConflict, code)
	require.Contains(t, body, `"reason":"leftover"`)
	require.Contains(t, body, "disk.img (8 GiB); choose whether the new VM gets them (data=keep)")
	code, _ = define("?data=all")
	require.Equal(t, http.StatusBadRequest, code)
	code, body = define("?dryRun=true")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `"leftover":"/data/web`)
	code, _ = define("?data=keep")
	require.Equal(t, http.StatusCreated, code)
	require.True(t, p.has("admin create db with data keep"), "%v", p.done)
}

// After a failed first start, the new VM's page shows the cause.
func TestAFailedFirstStartLeadsToTheVM(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	const cause = "vm.maximumRam: is 900 GiB, and this computer has 23.5 GiB"
	p.refuse = func(a fleet.Action, name string) error {
		vm := sample(name, fleet.Failed)
		vm.Message, vm.File = cause, "/vms/"+name+".yaml"
		p.Put(vm)
		return fleet.Refusal(cause)
	}
	create := func(name string) (*http.Response, string) {
		return p.submit("/new", "do", "create", "name", name, "type", "cloud", "cpus", "1", "ram", "1 GiB",
			"start", yes)
	}
	answer, _ := create("big")
	require.Equal(t, "/vms/big", answer.Header.Get("Location"))
	_, page := p.call("GET", "/vms/big", "")
	require.Contains(t, page, `<p class="alert bad">`+cause+"</p>")
	require.Contains(t, page, "<code>vmrunner log big</code>")

	p.refuse = func(fleet.Action, string) error { return fleet.Refusal("not today") }
	answer, _ = create("db")
	require.Equal(t, "/vms/db", answer.Header.Get("Location"))
	require.Len(t, answer.Cookies(), 1)
	notice := answer.Cookies()[0]
	answer, page = p.call("GET", "/vms/db", "", "Cookie", notice.Name+"="+notice.Value)
	require.Contains(t, page, `<p class="alert bad" role="alert">db was created but not started: not today</p>`)
	require.Negative(t, answer.Cookies()[0].MaxAge, "it is shown once")
}
