package cleanup

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCleanupUndoesEverythingTheLastFirst(t *testing.T) {
	t.Parallel()
	c := New(slog.New(slog.DiscardHandler))
	var done []string
	stuck, lost := errors.New("stuck"), errors.New("lost")
	for _, step := range []struct {
		what string
		err  error
	}{{"directory", nil}, {"lock", stuck}, {"swtpm", nil}, {"qemu", lost}} {
		c.Add(step.what, func() error { done = append(done, step.what); return step.err })
	}
	err := c.Run()
	require.Equal(t, []string{"qemu", "swtpm", "lock", "directory"}, done)
	require.ErrorIs(t, err, stuck)
	require.ErrorIs(t, err, lost)
	require.NoError(t, c.Run(), "nothing is undone twice")
	require.Len(t, done, 4)
}
