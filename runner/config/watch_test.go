package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// folder is a test's working folder. Errors fail the test.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) folder { return folder{t, t.TempDir()} }

func (f folder) at(name string) string { return filepath.Join(f.path, name) }

func (f folder) do(err error)       { f.t.Helper(); require.NoError(f.t, err) }
func (f folder) remove(name string) { f.t.Helper(); f.do(os.RemoveAll(f.at(name))) }

func (f folder) write(name, text string) {
	f.t.Helper()
	require.NoError(f.t, os.WriteFile(f.at(name), []byte(text), 0o600))
}

// The files of a Secret are watched like the configuration. Other files are not watched.
func TestFilesBesideAreWatched(t *testing.T) {
	t.Parallel()
	f := newFolder(t)
	f.write("config.yaml", "text")
	changes := Watch(t.Context(), slog.New(slog.DiscardHandler), f.at("config.yaml"))
	<-changes
	for _, name := range []string{"config.yaml", "display-password", "password-expiry"} {
		f.write(name, "new")
		select {
		case <-changes:
		case <-time.After(time.Minute):
			require.Fail(t, "no notification of "+name)
		}
	}
	f.write("other", "new")
	select {
	case <-changes: // the rest of the last change
	case <-time.After(time.Second):
	}
	f.write("other", "newer")
	select {
	case <-changes:
		require.Fail(t, "a notification of another file")
	case <-time.After(time.Second):
	}
}
