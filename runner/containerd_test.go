package runner_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/test/tier"
	"vmop/test/wait"
)

// TestABrokenOutQEMUInAContainer repeats the attempts in containers that runc creates from containerd's specifications,
// with containerd's default seccomp profile and masked files. The containers use the host's network.
func TestABrokenOutQEMUInAContainer(t *testing.T) {
	tier.Deep(t)
	t.Parallel()
	for kind, p := range pods() {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			v, to := newAttackedPod(t, p)
			v.starts(runc(t, v, p, to))
			v.attackedPod(to, p)
		})
	}
}

// runc returns a command that runs the VM in a container, which contains the host's programs, and the folders of the VM
// and of the other VM.
func runc(t *testing.T, v *vm, p pod, to targets) *exec.Cmd {
	t.Helper()
	dir, err := os.MkdirTemp("", "c")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	root := filepath.Join(dir, "rootfs")
	require.NoError(t, os.Mkdir(root, 0o755))
	for _, name := range []string{"bin", "sbin", "lib", "lib64"} {
		require.NoError(t, os.Symlink("usr/"+name, filepath.Join(root, name)))
	}
	args := append(p.contained(t), "--rootfs", "--read-only", "--net-host",
		"--env", "PATH="+os.Getenv("PATH"), "--env", "HOME="+v.dir, "--env", "XDG_RUNTIME_DIR="+v.path("run"),
		"--mount", "type=tmpfs,src=tmpfs,dst=/tmp,options=mode=1777")
	for folder, how := range map[string]string{
		"/usr": "ro", "/etc": "ro", v.dir: "rw", filepath.Dir(to.OtherMonitor): "rw",
	} {
		args = append(args, "--mount", "type=bind,src="+folder+",dst="+folder+",options=rbind:"+how)
	}
	id := filepath.Base(dir)
	spec := containerdSpec(t, dir, append(args, root, id), id)
	process := spec["process"].(map[string]any)
	process["user"], process["args"] = map[string]int{"uid": p.user, "gid": p.user}, v.runnerArgs()
	text, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
	return exec.CommandContext(context.WithoutCancel(t.Context()), "runc", "--root", filepath.Join(dir, "runc"),
		"run", "--bundle", dir, id)
}

// contained returns the options with which ctr creates a container with the pod's privileges.
func (p pod) contained(t *testing.T) []string {
	t.Helper()
	if p.privileged {
		return []string{"--privileged"}
	}
	text, err := exec.CommandContext(t.Context(), "ctr", "oci", "spec").Output()
	require.NoError(t, err, "install the Debian package containerd")
	var standard struct {
		Process struct{ Capabilities struct{ Bounding []string } }
	}
	require.NoError(t, json.Unmarshal(text, &standard))
	args := []string{"--seccomp"}
	for _, name := range standard.Process.Capabilities.Bounding {
		args = append(args, "--cap-drop", name)
	}
	for _, name := range p.capabilities {
		args = append(args, "--cap-add", "CAP_"+strings.ToUpper(name))
	}
	return args
}

// containerdSpec returns the specification that containerd writes for runc.
func containerdSpec(t *testing.T, dir string, create []string, id string) map[string]any {
	t.Helper()
	socket, config := filepath.Join(dir, "c.sock"), filepath.Join(dir, "containerd.toml")
	require.NoError(t, os.WriteFile(config, []byte(`version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
root = "`+dir+`/root"
state = "`+dir+`/state"
grpc.address = "`+socket+`"
`), 0o600))
	ctx, end := context.WithCancel(t.Context())
	daemon := exec.CommandContext(ctx, "containerd", "--config", config)
	var log strings.Builder
	daemon.Stderr = &log
	require.NoError(t, daemon.Start(), "install the Debian package containerd")
	defer func() {
		end()
		_ = daemon.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	ctr := func(args ...string) ([]byte, error) {
		return exec.CommandContext(ctx, "ctr", append([]string{"--address", socket}, args...)...).CombinedOutput()
	}
	wait.Until(t, func() bool {
		_, err := ctr("version")
		return err == nil
	})
	text, err := ctr(append([]string{"container", "create"}, create...)...)
	require.NoError(t, err, "%s", text)
	text, err = ctr("container", "info", "--spec", id)
	require.NoError(t, err, "%s", text)
	var spec map[string]any
	require.NoError(t, json.Unmarshal(text, &spec))
	return spec
}
