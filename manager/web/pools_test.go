package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/web/fleet"
)

// poolsOf are pools that give a VM to anyone who claims one.
type poolsOf struct {
	of *stage

	mutex sync.Mutex
	all   []*fleet.Pool
}

func (p *poolsOf) Pools() []*fleet.Pool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.all
}

func (p *poolsOf) Claim(_ context.Context, user, pool string) (string, error) {
	if err := p.of.record("%s claims of %s", user, pool); err != nil {
		return "", err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for _, pool := range p.all {
		for i := range pool.Members {
			if m := &pool.Members[i]; m.State == "free" {
				m.State, m.Assigned = "retained", &fleet.Assigned{Pool: pool.Name, User: user, Until: until}
				vm := sample(m.VM, fleet.Running)
				vm.Assigned, vm.Labels = m.Assigned, map[string]string{"may": "start"}
				p.of.Put(vm)
				pool.Available--
				return m.VM, nil
			}
		}
	}
	return "", fleet.Refusal("none of the pool's VMs is free")
}

func (p *poolsOf) Release(_ context.Context, user, vm string) error {
	return p.of.record("%s releases %s", user, vm)
}

var until = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newPools returns a play with a pool of one VM, and users who may get it.
func newPools(t *testing.T, may ...v1.PoolAction) *play {
	t.Helper()
	p := newPlay(t)
	p.pools = &poolsOf{of: p.stage, all: []*fleet.Pool{{
		Name: "desktops", Available: 1, VMs: 1, Free: 1, Members: []fleet.PoolMember{{VM: "corner", State: "free"}},
	}}}
	p.ofPools = []v1.PoolPermission{{User: "guest", May: may}, {User: "bob", May: []v1.PoolAction{"start"}}}
	return p
}

// P07, P09, P15: a user with permission to start gets a VM from the portal, and sees its name and how long it is kept.
// The next user sees that no VM is free, and when one may be.
func TestPortalOfPools(t *testing.T) {
	t.Parallel()
	p := newPools(t, "start", "accessConsole")
	p.roles(map[string][]string{"staff": {"VmAccess"}})
	as := []string{"Test-User", "guest", "Sec-Fetch-Mode", "navigate"}
	_, page := p.call("GET", "/portal", "", as...)
	require.Contains(t, page, `id="pool-desktops"`)
	require.Contains(t, page, "1 available")
	require.NotContains(t, page, "corner")
	answer, _ := p.call("POST", "/pools/desktops/claim", "do=start", as...)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	_, page = p.call("GET", "/portal", "", as...)
	require.Contains(t, page, `id="card-corner"`)
	require.Contains(t, page, "From the pool desktops.")
	require.Contains(t, page, `id="release-corner"`)
	require.NotContains(t, page, `id="pool-desktops"`)

	bob := []string{"Test-User", "bob", "Sec-Fetch-Mode", "navigate"}
	_, page = p.call("GET", "/portal", "", bob...)
	require.NotContains(t, page, "corner", "it is another user's")
	require.Contains(t, page, "The next one may become available at 2026-03-01 12:00 UTC")
	answer, page = p.call("POST", "/pools/desktops/claim", "do=start", bob...)
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	require.Contains(t, page, "No VM is available.")

	_, question := p.call("POST", "/vms/corner/release", "do=", as...)
	require.Contains(t, question, "Give corner back?")
	answer, _ = p.call("POST", "/vms/corner/release", "sure=yes", as...)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Contains(t, p.done, "guest releases corner")
}

// P10, P11: every kind of request for a VM is checked for permission. A pool that the visitor may not see doesn't exist
// for them.
func TestPoolsNeedPermission(t *testing.T) {
	t.Parallel()
	p := newPools(t, "accessConsole")
	p.allow("guest", "*") // for VMs only, not for pools
	for path, want := range map[string]int{
		"/pools/desktops/claim": http.StatusForbidden, "/pools/servers/claim": http.StatusNotFound,
		"/api/v1/pools/desktops/claim": http.StatusForbidden, "/api/v1/pools/none/claim": http.StatusNotFound,
	} {
		answer, _ := p.call("POST", path, "do=start", "Test-User", "guest")
		require.Equal(t, want, answer.StatusCode, path)
		answer, _ = p.call("POST", path, "do=start", "Test-User", "stranger")
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
	}
	require.Empty(t, p.done)
	_, page := p.call("GET", "/portal", "", "Test-User", "guest", "Sec-Fetch-Mode", "navigate")
	require.Contains(t, page, `id="claim-desktops" class="primary" disabled title="you do not have the permission start"`)

	_, err := p.pools.Claim(t.Context(), "bob", "desktops")
	require.NoError(t, err)
	answer, _ := p.call("POST", "/api/v1/vms/corner/release", "", "Test-User", "guest")
	require.Equal(t, http.StatusForbidden, answer.StatusCode, "it is bob's")
	_, text := p.call("GET", "/api/v1/pools", "", "Test-User", "guest")
	require.NotContains(t, text, "bob")
	require.NotContains(t, text, "corner")
	_, text = p.call("GET", "/pools", "", "Test-User", "guest", "Sec-Fetch-Mode", "navigate")
	require.NotContains(t, text, "corner")
}

// The page of pools and the JSON interface show who has which VM, and can release a VM.
func TestPoolsOfAdministrators(t *testing.T) {
	t.Parallel()
	p := newPools(t, "start")
	answer, text := p.call("POST", "/api/v1/pools/desktops/claim", "", "Test-User", "guest")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.JSONEq(t, `{"vm": "corner"}`, text)
	_, page := p.call("GET", "/pools", "", "Sec-Fetch-Mode", "navigate")
	require.Contains(t, page, `<td>guest</td>`)
	require.Contains(t, page, "Kept for its user")
	require.Contains(t, page, "Take corner away from guest?")
	_, list := p.call("GET", "/", "", "Sec-Fetch-Mode", "navigate")
	require.Contains(t, list, `href="/pools"`)
	name, parts := p.follow("/live?pools=1").next()
	require.Equal(t, "parts", name)
	require.Contains(t, parts, `id="pooltable"`)

	_, text = p.call("GET", "/api/v1/pools/desktops", "")
	var pool fleet.Pool
	require.NoError(t, json.Unmarshal([]byte(text), &pool))
	require.Equal(t, "guest", pool.Members[0].Assigned.User)
	_, text = p.call("GET", "/api/v1/vms/corner", "")
	require.Contains(t, text, `"assigned":{"pool":"desktops","user":"guest"`)
	answer, _ = p.call("POST", "/api/v1/vms/corner/release", "")
	require.Equal(t, http.StatusNoContent, answer.StatusCode)
	require.Contains(t, p.done, "admin releases corner")
	answer, _ = p.call("POST", "/api/v1/vms/corner/release", "", "Test-User", "stranger")
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}
