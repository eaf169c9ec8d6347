package nbdexport

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What is lost on the way to a server is sent again; an answer is one, also if it is a refusal.
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
			left := c.lost
			_, err := connect(ctx, func(ctx context.Context) (net.Conn, error) {
				if left--; left >= 0 {
					<-ctx.Done()
					return nil, ctx.Err()
				}
				return ours, c.err
			})
			require.ErrorIs(t, err, c.want)
			if c.want == nil || errors.Is(c.want, refusal) {
				require.Equal(t, -1, left)
			}
		})
	}
}
