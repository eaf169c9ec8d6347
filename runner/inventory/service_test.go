package inventory

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// fakeSystemctl is a systemctl that records its calls. Each file in a folder is a known unit, and its content is the
// output of show. (cmd/vmrunner has tests with a real systemd.)
const fakeSystemctl = `#!/bin/sh
echo "$@" >>DIR/calls
user=
for word; do
	case $word in
	--user) user=user- ;;
	--property=Version) exit 0 ;;
	vmrunner@*) cat "DIR/$user$word" 2>/dev/null || echo "Id=$word
LoadState=not-found"; echo ;;
	esac
done
case $* in *show*) exit ;; esac
[ ! -e DIR/refuse ] || { echo "Interactive authentication required." >&2; exit 1; }
`

// withSystemctl adds the fake systemctl to PATH for the whole process.
func (h *here) withSystemctl() *here {
	h.t.Helper()
	h.write("bin/systemctl", []byte(strings.ReplaceAll(fakeSystemctl, "DIR", h.dir)))
	require.NoError(h.t, os.Chmod(filepath.Join(h.dir, "bin/systemctl"), 0o755))
	h.t.Setenv("PATH", filepath.Join(h.dir, "bin")+":"+os.Getenv("PATH"))
	return h
}

// calls returns and clears the recorded calls of systemctl, except for queries.
func (h *here) calls() (calls []string) {
	h.t.Helper()
	file := filepath.Join(h.dir, "calls")
	text, err := os.ReadFile(file)
	require.NoError(h.t, err)
	require.NoError(h.t, os.Remove(file))
	for line := range strings.Lines(string(text)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "--no-ask-password --no-pager ")
		if !strings.Contains(line, "show --property=") {
			calls = append(calls, line)
		}
	}
	return calls
}

func loaded(name, active, enabled string) []byte {
	return []byte("Id=vmrunner@" + name + ".service\nLoadState=loaded\nActiveState=" + active +
		"\nUnitFileState=" + enabled + "\n")
}

func TestServices(t *testing.T) {
	h := newHere(t).withSystemctl()
	ctx := t.Context()
	h.write("system/vmrunner/web.yaml", text("web"))
	h.write("system/vmrunner/db.yaml", text("db"))
	h.write("vmrunner@web.service", loaded("web", "inactive", "disabled"))
	h.write("vmrunner@db.service", loaded("db", "active", "enabled"))
	vms, err := h.List(ctx)
	require.NoError(t, err)
	require.Equal(t, StateActive, vms[0].State)
	require.True(t, vms[0].Service.Autostart)
	require.Equal(t, vmstatus.StateStopped, vms[1].State)
	require.Equal(t, Service{Unit: "vmrunner@web.service", Active: "inactive"}, vms[1].Service)
	require.Empty(t, h.calls())

	require.NoError(t, h.Start(ctx, "web"))
	_, err = h.Autostart(ctx, "web", true)
	require.NoError(t, err)
	require.ErrorIs(t, h.Start(ctx, "db"), ErrRunning)
	require.NoError(t, h.Stop(ctx, "db", false))
	require.ErrorContains(t, h.Stop(ctx, "db", true), "only its user can end it by force")
	require.Equal(t, []string{
		"start -- vmrunner@web.service", "enable -- vmrunner@web.service", "stop --no-block -- vmrunner@db.service",
	}, h.calls())

	h.write("vmrunner@web.service", loaded("web", "failed", "enabled"))
	require.Equal(t, StateFailed, h.find("web").State)
	_, err = h.Delete(ctx, "web", DeleteOptions{})
	require.NoError(t, err)
	require.Equal(t, []string{"disable -- vmrunner@web.service"}, h.calls())

	h.write("vmrunner@db.service", loaded("db", "inactive", "enabled"))
	h.write("refuse", nil)
	h.write("system/vmrunner/db.yaml", text("db"))
	_, err = h.Autostart(ctx, "db", true)
	require.ErrorContains(t, err, "Interactive authentication required", "what systemctl says is not lost")
}

// A VM in a folder that systemd doesn't use is not a service, because systemd would start another VM of that name.
func TestNoServiceOfAnUnusualFolder(t *testing.T) {
	h := newHere(t).withSystemctl()
	h.write("system/vmrunner/web.yaml", text("web"))
	h.write("vmrunner@web.service", loaded("web", "active", "enabled"))
	require.Equal(t, StateActive, h.find("web").State)
	h.opts.Places[1].Detached = true
	require.Equal(t, vmstatus.StateStopped, h.find("web").State)
	require.Empty(t, h.find("web").Service)
}

// A user's unit is created only when one of the user's VMs is first set to start automatically.
func TestAutostartOfAUser(t *testing.T) {
	h := newHere(t).withSystemctl()
	ctx := t.Context()
	h.write("user/vmrunner/web.yaml", text("web"))
	_, err := h.Autostart(ctx, "web", false)
	require.NoError(t, err)
	require.Empty(t, h.calls())
	require.True(t, h.UserServices(ctx))
	require.True(t, h.find("web").CanAutostart(true))
	require.False(t, h.find("web").CanAutostart(false), "no manager could start it")
	require.False(t, h.StartsAtBoot(h.find("web")), "the user does not linger")
	note, err := h.Autostart(ctx, "web", true)
	require.NoError(t, err)
	require.Contains(t, note, "loginctl enable-linger")
	require.Equal(t, []string{"--user daemon-reload", "--user enable -- vmrunner@web.service"}, h.calls())
	unit, err := os.ReadFile(filepath.Join(h.dir, "user/systemd/user/vmrunner@.service"))
	require.NoError(t, err)
	require.Contains(t, string(unit), `ExecStart="`+h.opts.Program+`" run %i --log-format text`)
	require.Contains(t, string(unit), `Environment="XDG_CONFIG_HOME=`+filepath.Join(h.dir, "user"))
	require.NotContains(t, string(unit), "@PROGRAM@")
	require.NotContains(t, string(unit), "@ENVIRONMENT@")

	h.write("system/vmrunner/db.yaml", text("db"))
	_, err = h.Autostart(ctx, "db", true)
	require.ErrorContains(t, err, `"make install" installs it`)
	require.False(t, h.find("db").CanAutostart(true), "only root can install the unit")
	h.write("vmrunner@db.service", loaded("db", "inactive", "disabled"))
	require.True(t, h.find("db").CanAutostart(false))
	require.True(t, h.StartsAtBoot(h.find("db")))
	h.write("user/vmrunner/a b.yaml", text("a b"))
	_, err = h.Autostart(ctx, "a b", true)
	require.ErrorContains(t, err, "can't be part of the name of a service")
	h.write("user/vmrunner/wrong.yaml", text("wrong", "cpus: 1"))
	_, err = h.Autostart(ctx, "wrong", true)
	require.ErrorContains(t, err, "cpus")
}

func TestWithoutSystemd(t *testing.T) {
	h := newHere(t)
	t.Setenv("PATH", h.dir)
	h.write("user/vmrunner/web.yaml", text("web"))
	require.Empty(t, h.find("web").Service.Unit)
	require.False(t, h.UserServices(t.Context()))
	_, err := h.Autostart(t.Context(), "web", true)
	require.ErrorContains(t, err, "web can't be started automatically: this needs systemd")
}

// A user without lingering sees a note about the effect of a log-out on a VM.
func TestLogOutNote(t *testing.T) {
	t.Parallel()
	mine := &Place{}
	session := VM{Name: "web", Place: mine, RuntimeDir: "/run/user/7/vmrunner/web"}
	for _, tt := range []struct {
		what    string
		vm      VM
		lingers bool
		want    string
	}{
		{"in the session's directory", session, false, "sockets of web"},
		{"of a user who lingers", session, true, ""},
		{"elsewhere", VM{Name: "web", Place: mine, RuntimeDir: "/tmp/joe/vmrunner/web"}, false, ""},
		{"a service", VM{Name: "web", Place: mine, Service: Service{Unit: "u"}}, false, "systemd stops web"},
		{"the computer's", VM{Name: "web", Place: &Place{System: true}, Service: Service{Unit: "u"}}, false, ""},
		{"without a place", VM{Name: "web", RuntimeDir: "/run/user/7/web"}, false, ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			t.Parallel()
			note := tt.vm.logOutNote(tt.lingers)
			if tt.want == "" {
				require.Empty(t, note)
				return
			}
			require.Contains(t, note, tt.want)
			require.Contains(t, note, "loginctl enable-linger")
		})
	}
}
