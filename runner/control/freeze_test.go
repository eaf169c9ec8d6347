package control_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/control"
	"vmop/runner/status"
)

// freezer is a guest with file systems that the test freezes.
type freezer struct {
	limits chan time.Duration
	ended  chan struct{} // the waiting request was withdrawn
}

func (f freezer) Freeze(ctx context.Context, limit time.Duration) (status.FreezeAnswer, error) {
	f.limits <- limit
	if limit == time.Second { // the agent does not answer
		<-ctx.Done()
		close(f.ended)
		return status.FreezeAnswer{}, context.Cause(ctx)
	}
	return status.FreezeAnswer{Frozen: true, FileSystems: 3}, nil
}

func (f freezer) Thaw(context.Context) (status.FreezeAnswer, error) {
	return status.FreezeAnswer{}, control.Refusal("the VM has gone")
}

func TestAGuestIsFrozenByRequest(t *testing.T) {
	t.Parallel()
	f := freezer{make(chan time.Duration, 9), make(chan struct{})}
	s := serve(t, func(o *control.Options) { o.Freezer = f })
	a, err := s.client.Freeze(timeout(t), control.MaxFreezeTime)
	require.NoError(t, err)
	require.Equal(t, status.FreezeAnswer{Frozen: true, FileSystems: 3}, a)
	require.Equal(t, control.MaxFreezeTime, <-f.limits)
	require.Contains(t, s.raw(t, "POST /v1/freeze HTTP/1.1\r\nHost: vm\r\nConnection: close\r\n\r\n"), `"fileSystems": 3`)
	require.Equal(t, control.FreezeTime, <-f.limits)
	_, err = s.client.Thaw(timeout(t))
	require.EqualError(t, err, "the VM has gone")

	for _, limit := range []time.Duration{0, -1, control.MaxFreezeTime + 1} {
		_, err = s.client.Freeze(timeout(t), limit)
		refused := &control.AnswerError{}
		require.ErrorAs(t, err, &refused)
		require.Equal(t, http.StatusBadRequest, refused.Code)
		require.Contains(t, refused.Message, "at most 1m0s")
	}
	ctx, cancel := context.WithCancel(timeout(t))
	go func() {
		require.Equal(t, time.Second, <-f.limits)
		cancel()
	}()
	_, err = s.client.Freeze(ctx, time.Second)
	require.ErrorIs(t, err, context.Canceled)
	<-f.ended

	_, err = serve(t).client.Thaw(timeout(t))
	require.ErrorContains(t, err, "cannot freeze")
}
