package e2e_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	v1 "vmop/api/v1"
)

// The test searches all written data and all processes for secrets while runner and manager use them. The secrets
// appear only in the expected places; logs of all levels contain none.
func secretsStay(t *testing.T, l *lab) {
	const password, changed, pull, userData = "canary-password-6b1f", "canary-changed-92ac", "canary-pull-e07d",
		"canary-user-data-4c33"
	l.applyText(t, `
apiVersion: v1
kind: Secret
metadata: {name: canary-screen, labels: {app.kubernetes.io/name: vm-runner, app.kubernetes.io/component: display-secret, app.kubernetes.io/instance: canary}}
stringData: {display-password: `+password+`, password-expiry: never}
---
apiVersion: v1
kind: Secret
metadata: {name: canary-registry}
type: kubernetes.io/dockerconfigjson
stringData: {.dockerconfigjson: '{"auths": {"registry.example": {"username": "u", "password": "`+pull+`"}}}'}
`)
	l.kubectl(t, "patch", "serviceaccount", "vm-runner", "--type=merge", "-p",
		`{"imagePullSecrets": [{"name": "canary-registry"}]}`)
	t.Cleanup(func() {
		_, err := l.Kubectl(context.WithoutCancel(t.Context()), "-n", namespace, "patch", "serviceaccount", "vm-runner",
			"--type=merge", "-p", `{"imagePullSecrets": null}`)
		require.NoError(t, err)
	})
	v := l.create(t, tiny("canary", func(s *v1.VirtualMachineSpec) {
		s.VM.Display = &v1.Display{Spice: &v1.Spice{Port: 5900}}
		s.CloudInit = &v1.CloudInit{UserData: &runtime.RawExtension{Raw: []byte(`{"password": "` + userData + `"}`)}}
		s.LoggingProperties = ".level=ALL"
	}))
	v.runs()
	serial := v.now().Status.DisplayPasswordSerial
	require.GreaterOrEqual(t, serial, int64(0), "there is a password")
	l.searchFor(t, v, password, []string{"Secret/canary-screen"})
	l.kubectl(t, "patch", "secret", "canary-screen", "--type=merge", "-p", `{"stringData": {"display-password": "`+
		changed+`"}}`)
	v.until("to have another password", func(now *v1.VirtualMachine) bool {
		return now.Status.DisplayPasswordSerial > serial
	})
	for canary, places := range map[string][]string{
		password: nil,
		changed:  {"Secret/canary-screen"},
		pull:     {"Secret/canary-registry"},
		userData: {
			"ConfigMap/canary", "VirtualMachine/canary", "file cloud-init.img", "file config.yaml",
			"file machine.json",
		},
	} {
		l.searchFor(t, v, canary, places)
	}
	v.delete()
}

// searchFor requires that a text appears exactly in these places.
func (l *lab) searchFor(t *testing.T, v *clusterVM, canary string, places []string) {
	t.Helper()
	found := map[string]bool{}
	look := func(place, text string) {
		if strings.Contains(text, canary) {
			found[place] = true
		}
	}
	for place, text := range l.everything(t) {
		look(place, text)
	}
	log := l.kubectl(t, "logs", v.podName())
	require.Contains(t, log, "set_password", "the log has all commands to QEMU")
	look("the runner's log", log)
	look("the manager's log", l.managerLog(t.Context()))
	processes := l.search(func(string, []string) bool { return true })
	require.Subset(t, processes, l.qemus(v.name))
	for _, pid := range processes {
		for _, file := range []string{"cmdline", "environ"} {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)) // it may have ended
			look(fmt.Sprintf("%s of process %d", file, pid), string(text))
		}
	}
	for name, text := range files(t, l.qemus(v.name)[0]) {
		look("file "+name, text)
	}
	require.ElementsMatch(t, places, keys(found), "%s", canary)
}

func keys(of map[string]bool) (all []string) {
	for key := range of {
		all = append(all, key)
	}
	return all
}

// everything returns all objects of the namespace as text, with decoded secrets, by kind and name.
func (l *lab) everything(t *testing.T) map[string]string {
	t.Helper()
	kinds := strings.Fields(l.kubectl(t, "api-resources", "--namespaced", "--verbs=list", "-o", "name"))
	require.Contains(t, kinds, "controllerrevisions.apps")
	var list struct{ Items []map[string]any }
	text := l.kubectl(t, "get", strings.Join(kinds, ","), "--show-managed-fields", "-o", "yaml")
	require.NoError(t, yaml.Unmarshal([]byte(text), &list))
	all := map[string]string{}
	for _, item := range list.Items {
		whole, err := yaml.Marshal(item)
		require.NoError(t, err)
		object := unstructured.Unstructured{Object: item}
		place := object.GetKind() + "/" + object.GetName()
		all[place] += string(whole)
		if object.GetKind() != "Secret" {
			continue
		}
		data, _, err := unstructured.NestedStringMap(item, "data")
		require.NoError(t, err)
		for _, value := range data {
			decoded, err := base64.StdEncoding.DecodeString(value)
			require.NoError(t, err)
			all[place] += string(decoded)
		}
	}
	return all
}

// files returns the files that a pod's runner and QEMU have written, by name.
func files(t *testing.T, pid int) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, dir := range []string{"run/vmrunner", "var/local/vm-data", "tmp"} {
		root := fmt.Sprintf("/proc/%d/root/%s", pid, dir)
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return nil //nolint:nilerr // it is gone again
			}
			text, err := os.ReadFile(path)
			if err == nil {
				all[filepath.Base(path)] += string(text)
			}
			return nil
		})
		require.NoError(t, err)
	}
	require.NotEmpty(t, all["machine.json"], "what is known to be there")
	return all
}
