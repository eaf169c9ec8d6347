package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/manager/access"
	"vmop/manager/access/login"
	"vmop/manager/access/login/logintest"
	"vmop/manager/web"
	"vmop/test/tier"
	"vmop/test/visitor"
	"vmop/test/wait"
)

// Pages are served only when a user can log in. A new user can log in without a restart, until the user is removed.
func TestUsersComeAndGo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha")
	r := h.replica(Config{})
	r.logs("no user can log in yet")
	require.NoError(t, r.Ready(), "VMs are managed")
	require.NotContains(t, r.log.String(), "serving pages")
	_, err := h.client.CoreV1().Secrets(h.Name).Get(t.Context(), login.SecretName, metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "no right is needed for what isn't used")

	c := local(t, "ann")
	r.Configure(c)
	address, ann, stranger := r.address(1), visitor.New(t, nil), visitor.New(t, nil)
	require.NoError(t, r.Ready())
	code, _ := stranger.Get(address, "/")
	require.Equal(t, http.StatusSeeOther, code)
	for _, path := range []string{
		"/vms/alpha", "/live", "/vms/alpha/console/stream?mode=type", "/vms/alpha/screenshot",
	} {
		code, _ := stranger.Get(address, path, "Sec-Fetch-Mode", "cors")
		require.Equal(t, http.StatusUnauthorized, code, path)
	}
	code, page := stranger.Post(address, "/login", url.Values{"user": {"ann"}, "password": {"wrong"}})
	require.Equal(t, http.StatusUnauthorized, code)
	require.NotContains(t, page, `href="/help`, "strangers get no documents")

	c.Access.Administrators.Users = []string{"ann"}
	r.Configure(c)
	code, page = ann.LogIn(address, "ann", "ann").Get(address, "/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, `id="vm-alpha"`)
	require.Contains(t, page, `href="/help`)
	require.Equal(t, int64(1), r.Figures().Login.LogIns)
	require.Equal(t, int64(1), r.Figures().Login.Refused["password"])
	r.logs(`msg="user logged in" user=ann method=password address=127.0.0.1`)

	r.Configure(local(t, "bob"))
	code, _ = ann.Get(address, "/")
	require.Equal(t, http.StatusSeeOther, code, "she has to log in")
}

// Replicas share sessions. The end of a session closes its streams at all replicas.
func TestSessionsAreSharedByReplicas(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha")
	c := local(t, "ann")
	c.Access.Administrators.Users = []string{"ann"}
	first, second := h.replica(c), h.replica(c)
	one, other, ann := first.address(1), second.address(1), visitor.New(t, nil)
	ann.LogIn(one, "ann", "ann")
	code, page := ann.Get(other, "/")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, `id="vm-alpha"`)

	await, ended := ann.Live(other)
	await(`id="vm-alpha"`)
	require.Equal(t, int64(1), second.Figures().Open.Pages)
	h.vm("beta")
	await(`id="vm-beta"`)
	stolen := visitor.New(t, nil)
	for name, value := range ann.Cookies {
		stolen.Cookies[name] = value
	}
	code, _ = ann.Post(one, "/logout", url.Values{})
	require.Equal(t, http.StatusSeeOther, code)
	await("event: gone")
	ended()
	code, _ = stolen.Get(other, "/")
	require.Equal(t, http.StatusSeeOther, code, "the cookie is useless everywhere")
}

// A user without permission sees no row, page or stream of a VM. A new permission shows the VM without a reload.
func TestStrangersSeeNothing(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha", v1.Permission{User: "ann", May: []v1.Action{"start"}})
	h.vm("secret", v1.Permission{Role: "chiefs", May: []v1.Action{"*"}})
	r := h.replica(local(t, "ann"))
	address := r.address(1)
	ann := visitor.New(t, nil).LogIn(address, "ann", "ann")
	_, page := ann.Get(address, "/")
	require.Contains(t, page, `id="vm-alpha"`)
	require.NotContains(t, page, "secret")
	for _, path := range []string{
		"", "/screen", "/console", "/screenshot", "/plan", "/definition", "/console/stream?mode=type",
	} {
		code, text := ann.Get(address, "/vms/secret"+path)
		require.Equal(t, http.StatusNotFound, code, path)
		_, none := ann.Get(address, "/vms/nothing"+path)
		require.Equal(t, none, text, "no trace of it")
	}
	code, _ := ann.Post(address, "/vms/secret/do", url.Values{"do": {"stop"}, "sure": {"1"}})
	require.Equal(t, http.StatusNotFound, code)
	_, err := console(t, ann, address)
	require.ErrorContains(t, err, "403", "start is not accessConsole")

	await, _ := ann.Live(address)
	await(`id="vm-alpha"`)
	c := local(t)
	c.Login.Users = r.config.Load().Login.Users
	c.Login.Roles.ByUser = map[string][]string{"ann": {"chiefs"}}
	r.Configure(c)
	h.vm("other") // a change makes pages check permissions
	await(`id="vm-secret"`)
}

// A console ends with its user's permission, and with the server, which stops soon.
func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha")
	c := local(t, "ann")
	c.Access.Permissions = []v1.Permission{{User: "ann", May: []v1.Action{"accessConsole"}}}
	r := h.replica(c)
	address := r.address(1)
	ann := visitor.New(t, nil).LogIn(address, "ann", "ann")
	dial := func() *websocket.Conn {
		socket, err := console(t, ann, address)
		require.NoError(t, err)
		require.NoError(t, socket.Write(t.Context(), websocket.MessageBinary, []byte("echo")))
		_, text, err := socket.Read(t.Context())
		require.NoError(t, err)
		require.Equal(t, "echo", string(text))
		return socket
	}
	socket := dial()
	require.Equal(t, int64(1), r.Figures().Open.Consoles)
	r.logs(`msg="stream opened" user=ann vm=alpha path=/vms/alpha/console/stream mode=type`)
	less := c
	less.Access.Permissions = nil
	r.Configure(less)
	h.vm("other")
	_, _, err := socket.Read(t.Context())
	require.Equal(t, websocket.StatusCode(4001), websocket.CloseStatus(err), "refused")

	r.Configure(c)
	socket = dial()
	await, ended := ann.Live(address)
	await("parts")
	r.stop()
	ended()
	_, _, err = socket.Read(t.Context())
	require.Equal(t, websocket.StatusCode(4000), websocket.CloseStatus(err), "try again, elsewhere")
	wait.For(t, "the end of what was open", func() error {
		if open := r.Figures().Open; open != (web.Figures{}) {
			return fmt.Errorf("%v", open)
		}
		return nil
	})
}

// A user of a provider can log in, with the role from the provider.
func TestOpenIDConnect(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha")
	provider, err := logintest.New(map[string]any{"preferred_username": "eve", "roles": []string{"operators"}})
	require.NoError(t, err)
	t.Cleanup(provider.Close)
	r := h.replica(local(t, "ann"))
	address := r.address(1)
	provider.RedirectURI = "http://" + address + "/oauth/callback"
	var c Config
	c.Login.RedirectURI = provider.RedirectURI
	c.Login.Providers = []login.Provider{{
		Name: "corp", ConfigurationEndpoint: provider.URL + login.WellKnown,
		ClientID: provider.ClientID, Secret: provider.ClientSecret,
	}}
	c.Access.Administrators.Roles = []string{"operators"}
	r.Configure(c)
	eve := visitor.New(t, nil)
	code, to := eve.Post(address, "/login/corp", url.Values{"next": {"/vms/alpha"}})
	require.Equal(t, http.StatusSeeOther, code)
	back := follow(t, to)
	code, to = eve.Post(address, back, nil)
	require.Equal(t, http.StatusSeeOther, code, "it is a GET")
	require.Equal(t, "/vms/alpha", to)
	code, page := eve.Get(address, to)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, page, "eve")
	r.logs(`msg="user logged in" user=eve method=oidc provider=corp`)
}

// follow acts like a browser that a manager sends to a provider. It returns the manager's address where the provider
// sends it back.
func follow(t *testing.T, to string) string {
	t.Helper()
	answer := visitor.New(t, nil)
	at, err := url.Parse(to)
	require.NoError(t, err)
	_, location := answer.Post(at.Host, at.RequestURI(), nil)
	back, err := url.Parse(location)
	require.NoError(t, err)
	return back.RequestURI()
}

// With RBAC, the cluster's permissions decide. Without them, only administrators in the configuration have access.
func TestRBACDecides(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha", v1.Permission{User: "ann", May: []v1.Action{"*"}})
	h.vm("beta")
	h.Apply(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: beta}
rules: [{apiGroups: [vmoperator.jdrupes.org], resources: [vms/view], resourceNames: [beta], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: beta}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: beta}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: ann}]`)
	c := local(t, "ann")
	c.Access.Mode = access.ByRBAC
	r := h.replica(c)
	address := r.address(1)
	ann := visitor.New(t, nil).LogIn(address, "ann", "ann")
	wait.For(t, "the role to be in force", func() error {
		if code, _ := ann.Get(address, "/vms/beta"); code != http.StatusOK {
			return fmt.Errorf("code %d", code)
		}
		return nil
	})
	_, page := ann.Get(address, "/")
	require.NotContains(t, page, "alpha")
	c.Access.Mode = access.ByBoth
	r.Configure(c)
	_, page = ann.Get(address, "/")
	require.Contains(t, page, `id="vm-alpha"`)
	require.Contains(t, page, `id="vm-beta"`)
}

// Unencrypted requests are refused before a password is typed.
func TestNothingTravelsInTheClear(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	c := local(t, "ann")
	r := h.replica(c)
	address, v := r.address(1), visitor.New(t, nil)
	get := func(header ...string) int {
		code, _ := v.Get(address, "/login", header...)
		return code
	}
	require.Equal(t, http.StatusOK, get())
	require.Equal(t, http.StatusOK, get("Host", "localhost:8080"))
	require.Equal(t, http.StatusUpgradeRequired, get("Host", "vms.example.org"))
	require.Equal(t, http.StatusOK, get("Host", "vms.example.org", "X-Forwarded-Proto", "https"))
	require.Equal(t, http.StatusUpgradeRequired, get("Host", "vms.example.org", "X-Forwarded-Proto", "http"))
	c.Login.TrustedProxies = []string{"127.0.0.0/8"}
	r.Configure(c)
	require.Equal(t, http.StatusOK, get("Host", "vms.example.org"))
	require.Equal(t, http.StatusUpgradeRequired, get("Host", "vms.example.org", "X-Forwarded-Proto", "http"))
	c.Login.TrustedProxies, c.Login.PlainHTTP = nil, true
	r.Configure(c)
	require.Equal(t, http.StatusOK, get("Host", "vms.example.org"))
}

// A native viewer that names a ticket as its host is not mistaken for an unencrypted browser, even through kubectl
// port-forward.
func TestViewersConnect(t *testing.T) {
	t.Parallel()
	r := newHouse(t).replica(local(t, "ann"))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address(1))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "CONNECT unknown:5900 HTTP/1.1\r\nHost: unknown:5900\r\n\r\n")
	require.NoError(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusForbidden, answer.StatusCode, "%s", text)
	require.Contains(t, string(text), "download it again")
}

// A client that never completes its request is disconnected.
func TestSlowClients(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	r := newHouse(t).replica(local(t, "ann"))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.address(1))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	require.NoError(t, err)
	_, err = io.Copy(io.Discard, conn)
	require.NoError(t, err, "the server ends it")
}
