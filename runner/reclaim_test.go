package runner_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/migrate"
	"vmop/runner/migrate/handover"
	"vmop/runner/migrate/link"
	"vmop/runner/status/k8s"
	"vmop/test/guest"
)

// inPod makes the VM run as in a pod without access to the API server.
func (v *vm) inPod() {
	v.t.Helper()
	for name, text := range map[string]string{"namespace": "default", "token": "token", "ca.crt": ""} {
		v.write(name, text)
	}
	env := map[string]string{
		"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1", "POD_NAME": "test-0", "POD_UID": "4711",
	}
	pod, err := k8s.FindPod(func(name string) string { return env[name] }, v.dir)
	require.NoError(v.t, err)
	require.NotNil(v.t, pod)
	v.reporter = k8s.NewReporter(pod, slog.New(slog.DiscardHandler))
}

// released prepares the data of a source that ended after it released its guest, and returns the keys of its target.
func (v *vm) released() link.Keys {
	v.t.Helper()
	target, source, err := link.NewKeys("127.0.0.1:0", time.Now())
	require.NoError(v.t, err)
	l, err := link.Listen(v.t.Context(), target, v.log.logger())
	require.NoError(v.t, err)
	target.Address, source.Address = l.Address(), l.Address()
	require.NoError(v.t, l.Close())
	require.NoError(v.t, os.MkdirAll(v.path("data"), 0o700))
	require.NoError(v.t, handover.Note{Record: migrate.Released, Keys: source}.Write(v.path("data")))
	return target
}

// A pod that lost its machine after the guest was released asks the target. It starts the guest if the target does not
// have it and never will.
func TestAPodWithoutItsMachineAsks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer migrate.Message
		starts bool
	}{
		"the target has given up":     {migrate.Aborted, true},
		"the target has the guest":    {migrate.Resumed, false},
		"the target is gone for good": {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := newCounting(t, diskOf(t, guest.Counter(false)))
			v.inPod()
			keys := v.released()
			v.start()
			v.log.await(t, v.ended, "the guest was released to another runner, and its machine has ended here: "+
				"asking whether it runs there")
			if c.answer == "" {
				eventually(t, nil, func() error { return v.client().Act(t.Context(), control.Reclaim) })
			} else {
				answer(t, keys, c.answer)
			}
			if !c.starts {
				_, err := v.wait()
				require.ErrorContains(t, err, "and may be running there")
				note, err := handover.Read(v.path("data"))
				require.NoError(t, err)
				require.Equal(t, migrate.Moved, note.Record)
				return
			}
			v.log.await(t, v.ended, "booting")
			require.NoFileExists(t, handover.Path(filepath.Join(v.path("data"))))
			v.ends()
		})
	}
}

// answer is a target that answers Go.
func answer(t *testing.T, keys link.Keys, with migrate.Message) {
	t.Helper()
	l, err := link.Listen(t.Context(), keys, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	defer l.Close()
	conn := <-l.Accepted()
	defer conn.Close()
	f, err := conn.Receive()
	require.NoError(t, err)
	require.Equal(t, migrate.Go, f.Message)
	require.NoError(t, conn.Send(with, nil))
	f, err = conn.Receive()
	require.NoError(t, err)
	require.Equal(t, migrate.Known, f.Message)
}
