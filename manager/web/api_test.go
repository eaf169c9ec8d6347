package web

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"vmop/manager/web/fleet"
)

// ask makes a request to the JSON interface as guest, and returns its answer. Errors must be problem details.
func (p *play) ask(method, path, body string, header ...string) (int, string, problem) {
	p.t.Helper()
	answer, text := p.call(method, "/api/v1"+path, body, append([]string{"Test-User", "guest"}, header...)...)
	var why problem
	if answer.StatusCode >= 400 {
		require.Equal(p.t, "application/problem+json", answer.Header.Get("Content-Type"), text)
		require.NoError(p.t, json.Unmarshal([]byte(text), &why))
		require.Equal(p.t, answer.StatusCode, why.Status)
		require.NotEmpty(p.t, why.Reason)
		require.NotEmpty(p.t, why.Detail)
	}
	return answer.StatusCode, text, why
}

// apiCalls are requests with their required permission and effect.
var apiCalls = []struct{ method, path, body, permission, done string }{
	{"POST", "/vms/web/start", "", "start", "guest start web"},
	{"POST", "/vms/web/stop", "", "stop", "guest stop web"},
	{"POST", "/vms/web/kill", "", "stop", "guest kill web"},
	{"POST", "/vms/web/restart", "", "stop", "guest restart web"},
	{"POST", "/vms/web/force-restart", "", "stop", "guest force-restart web"},
	{"POST", "/vms/web/reset", "", "reset", "guest reset web"},
	{"POST", "/vms/web/pause", "", "stop", "guest pause web"},
	{"POST", "/vms/web/resume", "", "start", "guest resume web"},
	{"PATCH", "/vms/web", `{"cpus": 3, "ram": "1.5Gi"}`, "resize", "guest resize web cpus 3 ram 1610612736"},
	{"PUT", "/vms/web/drives/drive%200", `{"medium": "x.iso"}`, "edit", `guest insert web drive 0 "x.iso"`},
	{"DELETE", "/vms/web", "", "delete", "guest delete web"},
}

// Each action requires its permission, and has its effect; a dry run has none.
func TestAPIActions(t *testing.T) {
	t.Parallel()
	vm := sample("web", fleet.Running)
	for _, a := range fleet.Actions() {
		vm.Can[a] = true
	}
	p := newPlay(t, vm)
	for _, c := range apiCalls {
		p.allow("other", "*")
		code, _, why := p.ask(c.method, c.path, c.body)
		require.Equal(t, http.StatusNotFound, code, "as if there were none: %s", c.path)
		require.Equal(t, "error.novm", why.Reason)
		p.allow("guest", "accessConsole")
		code, _, why = p.ask(c.method, c.path, c.body)
		require.Equal(t, http.StatusForbidden, code, c.path)
		require.Equal(t, "access.notGranted", why.Reason)
		require.Equal(t, "you do not have the permission "+c.permission, why.Detail)
		p.allow("guest", "accessConsole", v1Action(c.permission))
		for _, dry := range []string{"?dryRun=true", ""} {
			require.Empty(t, p.done)
			code, text, _ := p.ask(c.method, c.path+dry, c.body)
			require.Contains(t, []int{http.StatusOK, http.StatusNoContent}, code, text)
		}
		require.Equal(t, []string{c.done}, p.done)
		p.done = nil
		code, _, _ = p.ask(c.method, c.path+"?dryRun=perhaps", c.body)
		require.Equal(t, http.StatusBadRequest, code)
		code, _, why = p.ask(c.method, c.path, c.body, "Sec-Fetch-Site", "cross-site")
		require.Equal(t, http.StatusForbidden, code, "a page of another site")
		require.Equal(t, "error.foreign", why.Reason)
	}
	require.Empty(t, p.done)
}

// An invalid request is reported, and changes nothing.
func TestWrongRequestsOfTheAPI(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running), sample("desk", fleet.Stopped))
	p.allow("guest", "*")
	p.faulty["bad"] = fleet.Faults{{Path: "spec.vm.maximumCpus", Line: 3, Message: "want a number"}}
	for _, c := range []struct {
		method, path, body string
		code               int
		reason, detail     string
		header             []string
	}{
		{"GET", "/vms/stranger", "", 404, "error.novm", "This virtual machine does not exist.", nil},
		{"GET", "/nothing", "", 404, "noRequest", "docs/reference/api.md", nil},
		{"POST", "/vms/web/explode", "", 404, "noRequest", "docs/reference/api.md", nil},
		{"POST", "/vms/web/delete", "", 404, "noRequest", "docs/reference/api.md", nil},
		{"POST", "/vms/web/start", "", 409, "refused", "“Running”", nil},
		{"DELETE", "/vms/web", "", 409, "refused", "“Running”", nil},
		{"PATCH", "/vms/web", `{"cpus": -1}`, 409, "refused", "whole number", nil},
		{"PATCH", "/vms/web", `{"cpus": 1.5}`, 400, "wrongRequest", "1.5", nil},
		{"PATCH", "/vms/web", `{"memory": "1Gi"}`, 400, "wrongRequest", "memory", nil},
		{"PATCH", "/vms/web", `{} {}`, 400, "wrongRequest", "more behind", nil},
		{"PATCH", "/vms/web", strings.Repeat(" ", formSize+1), 400, "wrongRequest", "too large", nil},
		{"PUT", "/vms/web/drives/drive%209", `{}`, 409, "refused", "drive 9", nil},
		{"GET", "/vms/web/screen?mode=shout", "", 400, "wrongRequest", "type, watch or take", nil},
		{"GET", "/vms/web/spice", "", 400, "wrongRequest", "give id", nil},
		{"GET", "/vms/web/spice?id=x&mode=watch", "", 400, "wrongRequest", "type or take", nil},
		{"GET", "/vms/web/port/0", "", 400, "wrongRequest", "1 to 65535", nil},
		{"GET", "/vms/web/port/ssh", "", 400, "wrongRequest", "1 to 65535", nil},
		{"GET", "/vms/web/source?module=other", "", 404, "error.novm", "", nil},
		{"PUT", "/vms/web/definition", "x: 1", 428, "condition", "If-Match", nil},
		{"PUT", "/vms/web/definition", "x: 1", 412, "error.changed", "", []string{"If-Match", `"0"`}},
		{"PUT", "/vms/web/definition", "bad", 422, "faults", "line 3", []string{"If-Match", `"1"`}},
		{"PUT", "/vms/web/definition?dryRun=1", "bad", 422, "faults", "line 3", []string{"If-Match", `"1"`}},
		{"PUT", "/vms/web/definition", "x: 1", 409, "exists", "", []string{"If-None-Match", "*"}},
		{
			"PUT", "/vms/web/definition", "x: 1", 428, "condition", "",
			[]string{"If-None-Match", "*", "If-Match", `"1"`},
		},
	} {
		code, text, why := p.ask(c.method, c.path, c.body, c.header...)
		require.Equal(t, c.code, code, "%s %s: %s", c.method, c.path, text)
		require.Equal(t, c.reason, why.Reason, c.path)
		require.Contains(t, why.Detail, c.detail)
		require.Equal(t, c.code == 422, len(why.Faults) == 1, "faults with their paths")
	}
	require.Empty(t, p.done)
	p.setFails(fleet.ErrOccupied)
	code, _, why := p.ask("GET", "/vms/web/console", "", "Connection", "Upgrade", "Upgrade", "websocket",
		"Sec-WebSocket-Version", "13", "Sec-WebSocket-Key", "MDEyMzQ1Njc4OWFiY2RlZg==")
	require.Equal(t, http.StatusLocked, code)
	require.Equal(t, "occupied", why.Reason)
	p.setFails(errors.New("no route to the runner"))
	code, _, why = p.ask("GET", "/vms/web/plan", "")
	require.Equal(t, http.StatusBadGateway, code)
	require.Equal(t, "failed", why.Reason)
}

// A definition is read, checked and saved with its version, and creates a VM; each requires its permission.
func TestAPIDefinitions(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.allow("guest", "accessConsole")
	for _, path := range []string{"/definition", "/plan", "/source?module=my.star"} {
		code, text, _ := p.ask("GET", "/vms/web"+path, "")
		require.Equal(t, http.StatusForbidden, code, path)
		require.NotContains(t, text, "Runner")
	}
	for _, condition := range [][]string{{"If-Match", `"1"`}, {"If-None-Match", "*"}} {
		code, _, _ := p.ask("PUT", "/vms/web/definition", "x: 1", condition...)
		require.Equal(t, http.StatusForbidden, code)
	}
	p.allow("guest", "edit", "create")
	answer, text := p.call("GET", "/api/v1/vms/web/definition", "", "Test-User", "guest")
	require.Equal(t, "application/yaml", answer.Header.Get("Content-Type"))
	require.Contains(t, text, fleet.Kept)
	tag := answer.Header.Get("ETag")
	code, text, _ := p.ask("PUT", "/vms/web/definition?dryRun=true", "x: 2", "If-Match", tag)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text,
		`"later":[{"path":"vm.maximumCpus","operation":"replace","currentValue":2,"desiredValue":4}]`)
	require.Empty(t, p.done)
	code, _, _ = p.ask("PUT", "/vms/web/definition", "x: 2\r\n", "If-Match", tag)
	require.Equal(t, http.StatusNoContent, code)
	require.Equal(t, "x: 2\n", p.saved)
	code, _, _ = p.ask("PUT", "/vms/other/definition", "x: 3", "If-None-Match", "*")
	require.Equal(t, http.StatusCreated, code)
	require.Equal(t, []string{"guest replace web", "guest create other"}, p.done)
}

// Answers to a user of the portal contain nothing about other VMs, and about the user's own VMs only what the card
// shows. Searches don't reveal more.
func TestAPITellsNothingElse(t *testing.T) {
	t.Parallel()
	p := newPlay(t, mine(fleet.Running), foreign("stranger", fleet.Running))
	p.roles(map[string][]string{"staff": {"VmAccess"}})
	_, list, _ := p.ask("GET", "/vms", "")
	_, one, _ := p.ask("GET", "/vms/mine", "")
	require.Contains(t, one, "Debian GNU/Linux 12")
	require.Contains(t, list, `"total":1`)
	for _, words := range []string{canary, "team=" + canary, "stranger", "alice", "10.0.2"} {
		_, found, _ := p.ask("GET", "/vms?q="+words, "")
		require.Contains(t, found, `"total":0`, words)
	}
	e := p.follow("/api/v1/events?", "Test-User", "guest")
	_, first := e.next()
	name, _ := e.next()
	require.Equal(t, "current", name)
	p.Put(foreign("stranger", fleet.Paused))
	p.Put(foreign("newcomer", fleet.Running))
	p.Put(mine(fleet.Failed))
	_, second := e.next()
	require.Contains(t, second, "Failed")
	for _, text := range []string{list, one, first, second} {
		require.NotContains(t, text, canary)
		require.NotContains(t, text, "stranger")
		require.NotContains(t, text, "newcomer")
		require.NotContains(t, text, `"uid"`)
	}
	for _, path := range []string{"/plan", "/devices", "/definition", "/source?module=my.star", "/usage"} {
		code, text, why := p.ask("GET", "/vms/mine"+path, "")
		require.Equal(t, http.StatusForbidden, code, path)
		require.Equal(t, "error.notyourpage", why.Reason)
		require.NotContains(t, text, canary)
	}
	code, text, _ := p.ask("GET", "/vms/stranger", "")
	require.Equal(t, http.StatusNotFound, code)
	_, none, _ := p.ask("GET", "/vms/nothing", "")
	require.Equal(t, none, text, "no trace of it")

	p.roles(map[string][]string{"staff": {}})
	for _, path := range []string{"/vms", "/vms/mine", "/events"} {
		code, _, _ := p.ask("GET", path, "")
		require.Equal(t, http.StatusForbidden, code, path)
	}
	p.Put(mine(fleet.Running))
	name, _ = e.next()
	require.Equal(t, "gone", name)
}

// A visitor with permission to edit sees everything, but can't do what is not permitted.
func TestAPIOfAnOwner(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	p.allow("guest", "edit", "start")
	code, text, _ := p.ask("GET", "/vms/web", "")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `"path":"vm.maximumCpus"`)
	require.Contains(t, text, `"can":[]`)
	require.Contains(t, text, `"console":false`)
	for _, stream := range []string{"/screenshot", "/screen", "/console", "/spice?id=x", "/port/22"} {
		code, _, why := p.ask("GET", "/vms/web"+stream, "")
		require.Equal(t, http.StatusForbidden, code, stream)
		require.Equal(t, "access.notGranted", why.Reason)
	}
	p.allow("guest", "edit", "start", "stop", "accessConsole")
	_, text, _ = p.ask("GET", "/vms/web", "")
	require.Contains(t, text, `"can":["stop","kill","restart","force-restart","pause"]`)
	code, text, _ = p.ask("GET", "/vms/web/screenshot", "")
	require.Equal(t, http.StatusOK, code)
	require.Equal(t, "\x89PNG of web", text)
	_, text, _ = p.ask("GET", "/vms/web/usage", "")
	require.Contains(t, text, `"cpuSeconds":20`)
	p.picture, p.server.pictures.taken = make([]byte, pictureSize+1), nil
	code, _, _ = p.ask("GET", "/vms/web/screenshot", "")
	require.Equal(t, http.StatusBadGateway, code, "no picture instead")
}

// A list is limited to one page, however many VMs exist.
func TestAPIListIsBounded(t *testing.T) {
	t.Parallel()
	p := newPlay(t)
	for _, c := range "abc" {
		for i := range pageSize {
			p.Put(sample(string(c)+string(rune('A'+i)), fleet.Stopped))
		}
	}
	p.allow("guest", "*")
	var list struct {
		Items              []fleet.VM
		Page, Pages, Total int
	}
	_, text, _ := p.ask("GET", "/vms?sort=-name&page=9", "")
	require.NoError(t, json.Unmarshal([]byte(text), &list))
	require.Equal(t, 3*pageSize, list.Total)
	require.Len(t, list.Items, pageSize)
	require.Equal(t, 3, list.Page)
	require.Equal(t, "aA", list.Items[pageSize-1].Name)
}

// The stream contains only the VMs that have changed.
func TestAPIEvents(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("a", fleet.Stopped), sample("b", fleet.Stopped))
	e := p.follow("/api/v1/events")
	for _, want := range []string{"a", "b"} {
		name, data := e.next()
		require.Equal(t, "vm", name)
		require.Contains(t, data, `{"name":"`+want+`"`)
	}
	name, _ := e.next()
	require.Equal(t, "current", name)
	p.Put(sample("b", fleet.Running))
	_, data := e.next()
	require.Contains(t, data, `{"name":"b"`)
	require.Contains(t, data, `"state":"Running"`)
	p.Remove("a")
	name, data = e.next()
	require.Equal(t, "removed", name)
	require.JSONEq(t, `{"name":"a"}`, data)
	close(p.ended)
	name, _ = e.next()
	require.Equal(t, "gone", name)
}

// The stream of a client that reads nothing ends after its time limit.
func TestSlowReaderOfEvents(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("a", fleet.Stopped))
	w := &stuck{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/events", nil)
	require.NoError(t, p.server.apiEvents(w, r), "it is over")
	require.True(t, w.bounded.After(time.Now()), "the write had a deadline")
	require.Zero(t, p.server.Figures().Pages)
}

// stuck is a client that accepts nothing until the deadline.
type stuck struct {
	*httptest.ResponseRecorder
	bounded time.Time
}

func (s *stuck) SetReadDeadline(time.Time) error    { return nil }
func (s *stuck) SetWriteDeadline(t time.Time) error { s.bounded = t; return nil }
func (s *stuck) Write([]byte) (int, error)          { return 0, errors.New("i/o timeout") }

// An empty message ends the client's data, and the guest's answer still arrives.
func TestAPIStreams(t *testing.T) {
	t.Parallel()
	p := newPlay(t, sample("web", fleet.Running))
	socket, far := p.socket("/api/v1/vms/web/spice?id=abc&mode=take")
	require.True(t, p.has("admin spice web take 3"))
	require.NoError(t, far.Close())
	require.Equal(t, streamEnded, closed(t, socket))

	near, guest := tcpPair(t)
	p.dial = func() (net.Conn, error) { return near, nil }
	address := "ws" + strings.TrimPrefix(p.http.URL, "http") + "/api/v1/vms/web/port/22"
	socket, _, err := websocket.Dial(t.Context(), address, nil)
	require.NoError(t, err)
	require.True(t, p.has("admin port 22 of web"))
	for _, part := range []string{"what is ", "the time?", ""} {
		require.NoError(t, socket.Write(t.Context(), websocket.MessageBinary, []byte(part)))
	}
	question, err := io.ReadAll(guest)
	require.NoError(t, err)
	require.Equal(t, "what is the time?", string(question))
	_, err = guest.Write([]byte("noon"))
	require.NoError(t, err)
	require.NoError(t, guest.Close())
	_, answer, err := socket.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "noon", string(answer))
	require.Equal(t, streamEnded, closed(t, socket))
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (one, other net.Conn) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	one, err = new(net.Dialer).DialContext(t.Context(), "tcp", l.Addr().String())
	require.NoError(t, err)
	other, err = l.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = one.Close(), other.Close() })
	return one, other
}
