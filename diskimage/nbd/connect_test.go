package nbd

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A lost connection to a server is retried. Every answer is final, even a refusal.
func TestAServerIsConnectedWithAgain(t *testing.T) {
	t.Parallel()
	ours, _ := net.Pipe()
	refusal := errors.New("refused")
	for name, c := range map[string]struct {
		lost  int
		err   error
		limit time.Duration
		want  error
	}{
		"at once":        {0, nil, time.Minute, nil},
		"lost twice":     {2, nil, time.Minute, nil},
		"refused":        {0, refusal, time.Minute, refusal},
		"lost, refused":  {1, refusal, time.Minute, refusal},
		"without an end": {1000, nil, time.Second, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), c.limit)
			defer cancel()
			var tried atomic.Int32
			_, err := connectToServer(ctx, func(ctx context.Context) (net.Conn, error) {
				if int(tried.Add(1)) <= c.lost {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return ours, c.err
			})
			require.ErrorIs(t, err, c.want)
			if c.want == nil || errors.Is(c.want, refusal) {
				require.GreaterOrEqual(t, int(tried.Load()), c.lost+1)
			}
		})
	}
}

// The first of two connections is used and the other is closed.
func TestAServerThatAnswersLate(t *testing.T) {
	t.Parallel()
	slow, far := net.Pipe()
	quick, _ := net.Pipe()
	var tried atomic.Int32
	second := make(chan struct{})
	conn, err := connectToServer(t.Context(), func(context.Context) (net.Conn, error) {
		if tried.Add(1) == 1 {
			<-second
			return slow, nil
		}
		return quick, nil
	})
	require.NoError(t, err)
	require.Equal(t, quick, conn)
	close(second)
	_, err = far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
}
