package handover

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate"
	"vmop/test/wait"
)

// A guest released to a target that is gone forever is lost once a user confirms this: it is never resumed, and its
// QEMU ends.
func TestAReleasedGuestIsReclaimed(t *testing.T) {
	t.Parallel()
	s := strike(t, moment{"source", migrate.Asking}, func(s *struck) {
		s.receiving.cancel()
		_ = s.listener.Close()
		s.there().kill()
	})
	wait.Until(t, func() bool {
		err := s.source.Fence(t.Context())
		require.True(t, err == nil || errors.Is(err, errAnswers), "%v", err)
		return err == nil
	})
	require.ErrorIs(t, get(t, s.sending.ended), ErrReclaimed)
	<-s.from.done
	unrecorded(t, s.fromDir)
	require.ErrorIs(t, s.source.Fence(t.Context()), ErrNotReleased, "it has ended")
}

// A guest can't be reclaimed while it belongs to the source or while the target can be asked.
func TestAGuestIsNotReclaimedTooEarly(t *testing.T) {
	t.Parallel()
	var early, connected error
	s := strike(t, moment{"target", migrate.Holding}, func(s *struck) { early = s.source.Fence(s.t.Context()) })
	require.ErrorIs(t, early, ErrNotReleased)
	require.NoError(t, get(t, s.target.Decided()))
	require.NoError(t, get(t, s.sending.ended))
	exactlyOne(t, s.to, s.from)

	s = strike(t, moment{"target", migrate.Resuming}, func(s *struck) { connected = s.source.Fence(s.t.Context()) })
	require.ErrorIs(t, connected, errAnswers)
	require.NoError(t, get(t, s.sending.ended))
	exactlyOne(t, s.to, s.from)
	note, err := Read(s.fromDir)
	require.NoError(t, err)
	require.Equal(t, migrate.Moved, note.Record)
}
