package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	v1 "vmop/api/v1"
	"vmop/test/visitor"
	"vmop/test/wait"
)

// token returns a token of the service account robot, which it creates if necessary.
func (h *house) token(audience string) string {
	h.t.Helper()
	accounts := h.client.CoreV1().ServiceAccounts(h.Name)
	if _, err := accounts.Get(h.t.Context(), "robot", metav1.GetOptions{}); err != nil {
		_, err := accounts.Create(h.t.Context(), &corev1.ServiceAccount{
			ObjectMeta: metav1.ObjectMeta{Name: "robot"},
		}, metav1.CreateOptions{})
		require.NoError(h.t, err)
	}
	request := &authentication.TokenRequest{Spec: authentication.TokenRequestSpec{Audiences: []string{audience}}}
	made, err := accounts.CreateToken(h.t.Context(), "robot", request, metav1.CreateOptions{})
	require.NoError(h.t, err)
	return made.Status.Token
}

// program makes a request with a token.
func program(t *testing.T, address, path, token string, header ...string) (int, string) {
	t.Helper()
	return visitor.New(t, nil).Get(address, "/api/v1"+path, append([]string{
		"Authorization", "Bearer " + token, "Sec-Fetch-Mode", "",
	}, header...)...)
}

// dial opens the console of the VM alpha with a token.
func dial(t *testing.T, address, token string) (*websocket.Conn, error) {
	t.Helper()
	socket, _, err := websocket.Dial(t.Context(), "ws://"+address+"/api/v1/vms/alpha/console",
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	return socket, err
}

// A service account uses the JSON interface with a token for our audience, with its permissions, until it is deleted.
func TestServiceAccounts(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	robot := "system:serviceaccount:" + h.Name + ":robot"
	h.vm("alpha", v1.Permission{User: robot, May: []v1.Action{"accessConsole"}})
	h.vm("secret", v1.Permission{User: "ann", May: []v1.Action{"*"}})
	c := local(t, "ann")
	c.Login.TokenAudience = "vmop"
	r := h.replica(c)
	address, token, foreign := r.address(1), h.token("vmop"), h.token("https://kubernetes.default.svc")

	code, text := program(t, address, "/vms", token)
	require.Equal(t, http.StatusOK, code, text)
	require.Contains(t, text, `"alpha"`)
	require.NotContains(t, text, "secret")
	code, text = program(t, address, "/vms/secret", token)
	require.Equal(t, http.StatusNotFound, code)
	require.Contains(t, text, `"reason":"error.novm"`)
	socket, err := dial(t, address, token)
	require.NoError(t, err)
	require.NoError(t, socket.Write(t.Context(), websocket.MessageBinary, []byte("echo")))
	_, said, err := socket.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "echo", string(said))
	r.logs(`msg="stream opened" user=` + robot + ` vm=alpha path=/api/v1/vms/alpha/console mode=type`)

	forged := token[:strings.LastIndexByte(token, '.')+1] + "AAAA"
	for bad, why := range map[string]string{foreign: "another audience", forged: "not valid", "canary": "no JWT"} {
		code, text = program(t, address, "/vms", bad)
		require.Equal(t, http.StatusUnauthorized, code)
		var problem struct{ Detail, Reason string }
		require.NoError(t, json.Unmarshal([]byte(text), &problem))
		require.Equal(t, "token", problem.Reason)
		require.Contains(t, problem.Detail, why)
	}
	code, text = visitor.New(t, nil).Get(address, "/api/v1/vms")
	require.Equal(t, http.StatusUnauthorized, code)
	require.Contains(t, text, `"reason":"login.needed"`)
	for _, secret := range []string{token, foreign, forged} {
		for part := range strings.SplitSeq(secret, ".") {
			require.NotContains(t, r.log.String(), part, "no part of a token is logged")
		}
	}

	require.NoError(t, h.client.CoreV1().ServiceAccounts(h.Name).Delete(t.Context(), "robot", metav1.DeleteOptions{}))
	wait.For(t, "the token to be refused", func() error {
		if code, _ := program(t, address, "/vms", token); code != http.StatusUnauthorized {
			return fmt.Errorf("code %d", code)
		}
		return nil
	})
}

// With both a token and a session cookie, only the token counts, even if it is invalid. A request with a token needs no
// protection against other sites; a request with a cookie does.
func TestTokenAndCookie(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.vm("alpha", v1.Permission{User: "ann", May: []v1.Action{"*"}})
	c := local(t, "ann")
	c.Login.TokenAudience = "vmop"
	r := h.replica(c)
	address := r.address(1)
	ann := visitor.New(t, nil).LogIn(address, "ann", "ann")
	code, text := ann.Get(address, "/api/v1/vms")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, "alpha")
	code, text = ann.Get(address, "/api/v1/vms", "Authorization", "Bearer "+h.token("vmop"))
	require.Equal(t, http.StatusOK, code)
	require.NotContains(t, text, "alpha", "it is the robot who asks")
	code, _ = ann.Get(address, "/api/v1/vms", "Authorization", "Bearer x")
	require.Equal(t, http.StatusUnauthorized, code)
}
