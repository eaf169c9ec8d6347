package runner

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// Renaming a directory of a running VM is a problem until it returns. Changes in the directory are not. Replacing the
// data directory with another directory does not solve the problem.
func TestADirectoryThatIsGoneIsAProblem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data, run := filepath.Join(dir, "data"), filepath.Join(dir, "run")
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.Mkdir(run, 0o700))
	tracker := status.NewTracker(time.Now, status.Entered{State: vmstatus.StateBooted})
	sub := tracker.Subscribe(status.Pace{Every: time.Millisecond, Burst: 100})
	defer sub.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w := directoryWatch{
			data: directory{path: data}, runtime: directory{path: run}, tracker: tracker,
			log: slog.New(slog.DiscardHandler), remember: func() {},
			restore: func(context.Context) error { return errors.New("it can't be made") },
		}
		w.openCurrent()
		defer w.close()
		w.watchDirectories(ctx)
	}()
	becomes := func(want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
		defer cancel()
		for {
			s, err := sub.Next(ctx)
			require.NoError(t, err)
			var got []string
			for _, p := range s.Problems {
				require.Equal(t, vmstatus.ReasonDirectoryLost, p.Reason)
				got = append(got, p.Message[:len(filepath.Join(dir, "run"))+1])
			}
			if len(got) == len(want) {
				for i := range want {
					require.Contains(t, got[i], want[i])
				}
				return
			}
		}
	}
	becomes()
	require.NoError(t, os.WriteFile(filepath.Join(data, "file"), nil, 0o600))
	require.NoError(t, os.RemoveAll(run))
	becomes(run)
	require.NoError(t, os.Rename(data, data+".old"))
	becomes(data[:len(run)], run)
	require.NoError(t, os.Mkdir(data, 0o700))
	require.NoError(t, os.Remove(data))
	require.NoError(t, os.Rename(data+".old", data))
	becomes(run)
	cancel()
	<-ended
}
