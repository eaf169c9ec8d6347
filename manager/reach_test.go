package manager

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// That the API server is away is said once, and that it is back; single requests that
// fail are nothing.
func TestReach(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := &reach{log: slog.New(slog.NewTextHandler(&log, nil))}
	refused, now := errors.New("connection refused"), time.Unix(1<<30, 0)
	r.record(nil, now)
	for range 5 {
		r.record(refused, now.Add(patient))
		require.False(t, r.isAway())
		now = now.Add(patient)
		r.record(nil, now)
	}
	require.Empty(t, log.String())
	for range 5 {
		now = now.Add(2 * patient)
		r.record(refused, now)
		require.True(t, r.isAway())
	}
	require.Equal(t, 1, strings.Count(log.String(), "connection refused"))
	r.record(nil, now)
	r.record(nil, now)
	require.False(t, r.isAway())
	require.Equal(t, 1, strings.Count(log.String(), "answers again"))
}
