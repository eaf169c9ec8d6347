package e2e_test

import (
	"encoding/pem"
	"errors"
	"image/png"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
)

// robot is the name of a service account in permissions.
const robot = "system:serviceaccount:" + namespace + ":robot"

// throughManager uses a stopped VM with only a token for the manager: without a kubeconfig, without permissions in the
// cluster, and through an ingress with TLS only.
func (u *user) throughManager(v *clusterVM) {
	u.t.Helper()
	u.types("kubectl vmop resize "+v.name+" --cpus 1", "")
	u.types("kubectl create serviceaccount robot && kubectl create serviceaccount stranger", "")
	address, authority := u.ingress()
	with := func(account, file string, more ...string) string {
		file = filepath.Join(u.home, file)
		token := u.kubectl(u.t, append([]string{"create", "token", account}, more...)...)
		require.NoError(u.t, os.WriteFile(file, []byte(token), 0o600))
		return " --manager " + address + " --manager-ca " + authority + " --token-file " + file + " "
	}
	by := with("robot", "token", "--audience", "vmop")
	r := &user{
		lab: u.lab, t: u.t, home: u.home, outside: true,
		env: append(slices.Clip(u.env), "KUBECONFIG="+filepath.Join(u.home, "nothing")),
	}

	require.Regexp(u.t, `^`+v.name+`\n`, r.types("kubectl-vmop __complete start"+by+"''", ""), "those it may see")
	require.Contains(u.t, r.types("kubectl vmop start "+v.name+" --wait --timeout 5m"+by, ""), "started")
	v.runs()
	r.usesConsole("kubectl vmop console " + v.name + by)
	_, err := png.Decode(strings.NewReader(r.types("kubectl vmop screenshot "+v.name+" -f -"+by, "")))
	require.NoError(u.t, err)
	r.types("kubectl vmop resize "+v.name+" --cpus 2 --wait --timeout 5m"+by, "")
	r.asks("kubectl vmop console "+v.name+by, "until test $(nproc) = 2; do sleep 0.2; done")

	r.refused(4, "kubectl vmop delete "+v.name+by, "you do not have the permission delete")
	r.refused(4, "kubectl vmop stop "+v.name+with("robot", "other"), "audience") // a token for the API server
	stranger := with("stranger", "strange", "--audience", "vmop")
	r.refused(3, "kubectl vmop stop "+v.name+stranger, "This virtual machine does not exist")
	v.runs()
	require.Contains(u.t, r.types("kubectl vmop stop "+v.name+" --wait --timeout 5m"+by, ""), "stopped")
	v.podGone()
	u.until("kubectl vmop events "+v.name, robot+" has requested: Stop")
}

// ingress serves the manager's pages with a certificate, and returns its address and its authority's file.
func (u *user) ingress() (address, authority string) {
	u.t.Helper()
	to := &url.URL{Scheme: "http", Host: u.portForward(u.t)}
	server := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Host = "vms.example.com"
		r.SetXForwarded()
	}})
	u.t.Cleanup(server.Close)
	authority = filepath.Join(u.home, "ca.crt")
	block := &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}
	require.NoError(u.t, os.WriteFile(authority, pem.EncodeToMemory(block), 0o600))
	return server.URL, authority
}

// refused runs a line that must end with an exit code and a message.
func (u *user) refused(code int, line, why string) {
	u.t.Helper()
	out, err := u.command(line).CombinedOutput()
	var exit *exec.ExitError
	require.True(u.t, errors.As(err, &exit), "%s\n%v\n%s", line, err, out)
	require.Equal(u.t, code, exit.ExitCode(), "%s\n%s", line, out)
	require.Contains(u.t, string(out), why, line)
}
