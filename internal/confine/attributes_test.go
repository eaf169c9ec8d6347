package confine

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Without its own root folder, a process is denied changes to modes, dates and watches of the user's files. Landlock
// has no rule for them.
func TestAttributesAreDeniedWithoutAnOwnRoot(t *testing.T) {
	t.Parallel()
	for _, denied := range []bool{true, false} {
		at := tree(t, "w/a")
		attempts := map[string]func() error{
			"chmod":  func() error { return os.Chmod(at("w/a"), 0o644) },
			"fchmod": func() error { return fchmod(at("w/a")) },
			"dates":  func() error { return os.Chtimes(at("w/a"), time.Now(), time.Now()) },
			"owner":  func() error { return os.Chown(at("w/a"), os.Getuid(), os.Getgid()) },
			"attribute": func() error {
				err := unix.Setxattr(at("w/a"), "user.a", []byte("a"), 0)
				if errors.Is(err, unix.EOPNOTSUPP) {
					return nil
				}
				return err
			},
			"watch": func() error { return watch(filepath.Dir(at("w/a"))) },
		}
		results := map[string]error{}
		rules := &Rules{Paths: []Path{{Name: at("w"), Access: Write}}, NoAttributes: denied}
		held := under(t, rules, withoutRights, func() {
			for name, attempt := range attempts {
				results[name] = attempt()
			}
			results["write"] = os.WriteFile(at("w/a"), []byte("b"), 0o600)
		})
		require.NoError(t, results["write"])
		delete(results, "write")
		for name, err := range results {
			require.Equal(t, denied, errors.Is(err, unix.EPERM), "%s: %v", name, err)
		}
		require.Len(t, held.Lacks, 1)
		if denied {
			require.NotContains(t, held.Lacks[0], "dates")
		} else {
			require.Contains(t, held.Lacks[0], "change the mode, owner and dates of that user's files, and watch folders")
		}
	}
}

func fchmod(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(0o644)
}

func watch(folder string) error {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.InotifyAddWatch(fd, folder, unix.IN_ALL_EVENTS)
	return err
}

// The advice names the setting that blocks user namespaces.
func TestTheAdviceNamesTheSetting(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":  {nil, ""},
		"disabled": {map[string]string{"sys/user/max_user_namespaces": "0\n"}, "user.max_user_namespaces"},
		"Debian":   {map[string]string{"sys/kernel/unprivileged_userns_clone": "0\n"}, "unprivileged_userns_clone=1"},
		"Ubuntu": {map[string]string{
			"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
			"self/attr/current": "unprivileged_userns (enforce)\n",
		}, "AppArmor profile of vmrunner"},
		"Ubuntu, not tried": {map[string]string{
			"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", "self/attr/current": "unconfined\n",
		}, "AppArmor profile of vmrunner"},
		"Ubuntu, permitted": {map[string]string{
			"sys/kernel/apparmor_restrict_unprivileged_userns": "0\n", "self/attr/current": "unconfined\n",
		}, ""},
		"a container on Ubuntu": {map[string]string{
			"sys/kernel/apparmor_restrict_unprivileged_userns": "1\n",
			"self/attr/current": "cri-containerd.apparmor.d (enforce)\n",
		}, ""},
	} {
		proc := t.TempDir()
		for file, text := range c.files {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(proc, file)), 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(proc, file), []byte(text), 0o600))
		}
		advice := adviceFor(proc)
		require.Contains(t, advice, c.want, name)
		require.Equal(t, c.want == "", advice == "", name)
	}
}
