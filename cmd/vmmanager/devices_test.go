package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"vmop/cmd/vmmanager/devices"
	"vmop/test/program"
	"vmop/test/tier"
	"vmop/test/wait"
)

// The API server accepts the device plugin. Its pod violates Pod Security "restricted" only with the privileges in
// docs/tasks/device-plugin.md.
func TestDevicePlugin(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	require.NoError(t, program.LookInto("../../deploy"))
	p := newPlace(t, "restricted")
	text, err := exec.CommandContext(t.Context(), "kubectl", "kustomize", "../../deploy/device-plugin").Output()
	require.NoError(t, err)
	apply := p.KubectlCommand(t.Context(), "apply", "--server-side", "-f", "-")
	apply.Stdin = bytes.NewReader(text)
	out, err := apply.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var plugin appsv1.DaemonSet
	key := client.ObjectKey{Namespace: "vmop-devices", Name: "vmop-devices"}
	require.NoError(t, p.client.Get(t.Context(), key, &plugin))
	require.Equal(t, "vmop/manager:devel", plugin.Spec.Template.Spec.Containers[0].Image)
	require.False(t, *plugin.Spec.Template.Spec.AutomountServiceAccountToken)

	try := func(namespace string) (string, error) {
		pod, err := json.Marshal(&corev1.Pod{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
			ObjectMeta: metav1.ObjectMeta{Name: "try", Namespace: namespace}, Spec: plugin.Spec.Template.Spec,
		})
		require.NoError(t, err)
		cmd := p.KubectlCommand(t.Context(), "create", "--namespace", namespace, "--dry-run=server", "-f", "-")
		cmd.Stdin = bytes.NewReader(pod)
		said, err := cmd.CombinedOutput()
		return strings.TrimSpace(string(said)), err
	}
	p.eventually("a pod of the plugin is admitted", func() bool { // when the namespace has the service account
		_, err := try("vmop-devices")
		return err == nil
	})
	said, err := try(p.Name)
	require.Error(t, err)
	_, beyond, _ := strings.Cut(said, `violates PodSecurity "restricted:latest": `)
	require.Equal(t, `unrestricted capabilities (container "devices" must not include "MKNOD" in securityContext.capabilities.add), `+
		`restricted volume types (volume "device-plugins" uses restricted volume type "hostPath"), `+
		`runAsNonRoot != true (pod or container "devices" must set securityContext.runAsNonRoot=true), `+
		`runAsUser=0 (pod must not set runAsUser=0)`, beyond)
}

// The port of /readyz serves a limited number of connections at the same time. Others wait.
func TestFewAskAtATime(t *testing.T) {
	t.Parallel()
	folder, err := os.MkdirTemp("", "dp") // short, because socket paths are limited
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
	plugin, err := devices.New(devices.Options{
		Slots: 1, Folder: folder, Sys: "/sys", Log: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	f := deviceFlags{health: fmt.Sprintf("127.0.0.1:%d", 30000+ports.Add(1))}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.servePlugin(ctx, plugin) }()

	ask := func(conn net.Conn) string {
		_, err := io.WriteString(conn, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
		require.NoError(t, err)
		answer := make([]byte, 1024)
		n, err := conn.Read(answer)
		require.NoError(t, err)
		return string(answer[:n])
	}
	var all []net.Conn
	for range mostAsking {
		var conn net.Conn
		wait.For(t, "a connection", func() (err error) {
			conn, err = new(net.Dialer).DialContext(t.Context(), "tcp", f.health)
			return err
		})
		require.Contains(t, ask(conn), "200 OK")
		all = append(all, conn)
	}
	more, err := new(net.Dialer).DialContext(t.Context(), "tcp", f.health)
	require.NoError(t, err)
	answered := make(chan string, 1)
	go func() { answered <- ask(more) }()
	for range 200 {
		require.Contains(t, ask(all[0]), "200 OK")
	}
	require.Empty(t, answered)
	require.NoError(t, all[0].Close())
	require.Contains(t, <-answered, "200 OK")
	cancel()
	require.NoError(t, <-ended)
}
