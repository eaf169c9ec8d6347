package main

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	v1 "vmop/api/v1"
	"vmop/manager/access/login"
	"vmop/test/tier"
)

// usedOnPages uses the manager's permissions through the pages: it logs in, creates a VM, deletes it, and logs out.
func (p *place) usedOnPages(m *process) {
	p.t.Helper()
	address, admin := m.served(), p.visitor()
	admin.LogIn(address, "admin", "admin")
	p.eventually("the storage class of the disk that has grown is offered", func() bool {
		_, form := admin.Get(address, "/new")
		return strings.Contains(form, `<option value="`+p.Name+`">`)
	})
	code, to := admin.Post(address, "/new", url.Values{
		"name": {"doomed"}, "type": {"standard"}, "cpus": {"1"}, "ram": {"64 MiB"}, "do": {"create"},
	})
	require.Equal(p.t, http.StatusSeeOther, code)
	require.Equal(p.t, "/vms/doomed", to)
	p.eventually("the VM is on the page", func() bool {
		_, page := admin.Get(address, "/")
		return strings.Contains(page, `id="vm-doomed"`) && strings.Contains(page, `id="vm-web"`)
	})
	p.Apply(`{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualDisk, metadata: {name: lent},
  spec: {persistentVolumeClaim: {size: 1Gi, storageClassName: none-such}}}`)
	p.usesDisksOnPages(func(to string, fields url.Values) int {
		code, _ := admin.Post(address, to, fields)
		return code
	})
	for _, to := range []string{"attach", "detach", "snapshot"} {
		p.eventually(to+" is possible", func() bool {
			code, _ := admin.Post(address, "/vms/doomed/"+to, url.Values{"disk": {"lent"}, "sure": {"1"}})
			return code == http.StatusSeeOther
		})
	}
	p.Kubectl("delete", "vmsnapshot", "--all")
	p.Kubectl("delete", "vd", "lent")
	p.eventually("the VM can be deleted", func() bool {
		code, _ := admin.Post(address, "/vms/doomed/do", url.Values{"do": {"delete"}, "sure": {"1"}})
		return code == http.StatusSeeOther
	})
	p.eventually("the VM is gone", func() bool { return !p.get("doomed", &v1.VirtualMachine{}) })
	await, _ := admin.Live(address, "vm=web") // more events have already happened
	await("Restarting")
	code, _ = admin.Post(address, "/vms/web/size", url.Values{"cpus": {"2"}})
	require.Equal(p.t, http.StatusSeeOther, code)
	await("CPUs or RAM changed by admin")
	code, _ = admin.Post(address, "/vms/web/do", url.Values{"do": {"start"}})
	require.Equal(p.t, http.StatusSeeOther, code)
	require.Equal(p.t, v1.Running, p.vm("web").Spec.VM.State)
	require.Contains(p.t, m.log.String(), `"msg":"action","user":"admin","vm":"doomed","action":"delete"`)
	require.Equal(p.t, "1", m.metric("vmop_logins_total"))
	require.Equal(p.t, "1", m.metric("vmop_sessions"))
	code, _ = admin.Post(address, "/logout", url.Values{})
	require.Equal(p.t, http.StatusSeeOther, code)
	require.Equal(p.t, "0", m.metric("vmop_sessions"))
}

// usesDisksOnPages creates, grows and deletes a disk and an image.
func (p *place) usesDisksOnPages(post func(to string, fields url.Values) int) {
	p.t.Helper()
	for _, kind := range []string{"VirtualDisk", "VirtualImage"} {
		at := "/disks/" + kind + "/doomed"
		fields := url.Values{
			"name": {"doomed"}, "kind": {kind}, "from": {"upload"}, "size": {"1 GiB"}, "class": {"none-such"},
		}
		require.Equal(p.t, http.StatusSeeOther, post("/disks", fields))
		p.eventually("the "+kind+" grows", func() bool {
			return post(at+"/size", url.Values{"size": {"2 GiB"}}) == http.StatusSeeOther
		})
		size := p.Kubectl("get", kind, "doomed", "-o", "jsonpath={.spec.persistentVolumeClaim.size}")
		require.Equal(p.t, "2Gi", size)
		require.Equal(p.t, http.StatusSeeOther, post(at+"/delete", url.Values{"name": {"doomed"}}))
		p.eventually("the "+kind+" is gone", func() bool {
			return p.Kubectl("get", kind, "doomed", "--ignore-not-found") == ""
		})
	}
}

// Two managers both serve pages, independent of the leader, and accept each other's sessions. A user who is added to
// the configuration can log in without a restart, and sees the VMs that the permissions allow.
func TestPagesOfTwoManagers(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t, "restricted")
	p.Apply(`
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: hers}, spec: {
  permissions: [{user: ann, may: [start]}], vm: {state: Stopped, maximumCpus: 1}}}
---
{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: secret}, spec: {vm: {state: Stopped, maximumCpus: 1}}}`)
	config := p.withUsers("", "admin")
	first := p.start(config, "--leader-elect")
	second := p.start(p.withUsers("", "admin"), "--leader-elect")
	one, other, admin := first.served(), second.served(), p.visitor()
	admin.LogIn(one, "admin", "admin")
	for _, address := range []string{one, other} {
		_, page := admin.Get(address, "/")
		require.Contains(t, page, `id="vm-hers"`)
		require.Contains(t, page, `id="vm-secret"`)
		require.Contains(t, page, p.Name, "the title")
	}
	p.eventually("the one that stands by acts as well", func() bool {
		code, _ := admin.Post(other, "/vms/hers/do", url.Values{"do": {"start"}})
		return code == http.StatusSeeOther
	})
	p.eventually("the VM is to run", func() bool { return p.vm("hers").Spec.VM.State == v1.Running })

	ann := p.visitor()
	code, _ := ann.Post(one, "/login", url.Values{"user": {"ann"}, "password": {"ann"}})
	require.Equal(t, http.StatusUnauthorized, code)
	with, err := os.ReadFile(p.withUsers("", "admin", "ann"))
	require.NoError(t, err)
	with = regexp.MustCompile(`port: \d+`).ReplaceAll(with, []byte("port: "+one[strings.LastIndex(one, ":")+1:]))
	require.NoError(t, os.WriteFile(config, with, 0o600))
	p.eventually("ann gets in", func() bool {
		code, _ := ann.Post(one, "/login", url.Values{"user": {"ann"}, "password": {"ann"}})
		return code == http.StatusSeeOther
	})
	_, page := ann.Get(one, "/")
	require.Contains(t, page, `id="vm-hers"`)
	require.NotContains(t, page, "secret")
	code, _ = ann.Get(one, "/vms/secret")
	require.Equal(t, http.StatusNotFound, code)
	code, _ = ann.Get(other, "/")
	require.Equal(t, http.StatusSeeOther, code, "the other manager's file has no ann")
	require.Zero(t, first.stop(), "with users logged in")
	_, page = admin.Get(other, "/")
	require.Contains(t, page, `id="vm-hers"`)
}

// With the component auth-delegator the manager asks the cluster which account a token belongs to, and what RBAC
// permits.
func TestProgramsByRBAC(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	p := newPlace(t, "restricted")
	p.addComponent("auth-delegator")
	for _, name := range []string{"shown", "secret"} {
		p.Apply("{apiVersion: vmoperator.jdrupes.org/v1, kind: VirtualMachine, metadata: {name: " + name + "}, " +
			"spec: {vm: {state: Stopped, maximumCpus: 1}}}")
	}
	p.Kubectl("create", "serviceaccount", "robot")
	p.Kubectl("create", "role", "looks", "--verb=get", "--resource=vms.vmoperator.jdrupes.org/view",
		"--resource-name=shown")
	p.Kubectl("create", "rolebinding", "looks", "--role=looks", "--serviceaccount="+p.Name+":robot")
	config := p.withUsers("")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	more := strings.Replace(string(text), "/Access\": {", "/Access\": {authorization: rbac, tokenAudience: vmop, ", 1)
	require.NoError(t, os.WriteFile(config, []byte(more), 0o600))
	m := p.start(config)
	address, robot := m.served(), p.visitor()
	token := strings.TrimSpace(p.Kubectl("create", "token", "robot", "--audience", "vmop"))
	p.eventually("the robot sees its VM", func() bool {
		_, page := robot.Get(address, "/", "Authorization", "Bearer "+token)
		return strings.Contains(page, `id="vm-shown"`) && !strings.Contains(page, "secret")
	})
	other := strings.TrimSpace(p.Kubectl("create", "token", "robot"))
	code, _ := robot.Get(address, "/", "Authorization", "Bearer "+other)
	require.Equal(t, http.StatusUnauthorized, code, "a token for the API server")
	require.NotContains(t, m.log.String(), token)
	used, refused := p.requests("vm-operator")
	require.Empty(t, refused)
	require.Contains(t, used, "tokenreviews.authentication.k8s.io create")
	require.Contains(t, used, "subjectaccessreviews.authorization.k8s.io create")
}

// deploy/ without the Secret with users serves no page, and reports the reason.
func TestNoUserNoPages(t *testing.T) {
	t.Parallel()
	p := newPlace(t, "restricted")
	m := p.start(p.config(""))
	require.Contains(t, m.log.String(), "no pages are served, because no user can log in yet")
	require.NotContains(t, p.Kubectl("get", "secrets", "-o", "name"), login.SecretName)
}
