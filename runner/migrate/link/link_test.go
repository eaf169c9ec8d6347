package link

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/runner/migrate"
	"vmop/test/wait"
)

// listen returns a listening target and its source's keys.
func listen(t *testing.T) (*Listener, Keys) {
	t.Helper()
	target, source, err := NewKeys("127.0.0.1:0", time.Now())
	require.NoError(t, err)
	l, err := Listen(t.Context(), target, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	source.Address = l.Address()
	return l, source
}

// meet returns both ends of a connection.
func meet(t *testing.T, l *Listener, source Keys, stream string) (atSource, atTarget *Conn) {
	t.Helper()
	atSource, err := Dial(t.Context(), source, stream)
	require.NoError(t, err)
	t.Cleanup(func() { _ = atSource.Close() })
	atTarget = wait.Receive(t, l.Accepted(), "no connection arrives")
	t.Cleanup(func() { _ = atTarget.Close() })
	require.Equal(t, stream, atTarget.Stream)
	return atSource, atTarget
}

func TestMessagesArriveInOrder(t *testing.T) {
	t.Parallel()
	l, keys := listen(t)
	source, target := meet(t, l, keys, "")
	large := strings.Repeat("x", longest/2)
	go func() {
		_ = source.Send(migrate.Offer, large)
		_ = source.Send(migrate.Go, nil)
	}()
	f, err := target.Receive()
	require.NoError(t, err)
	require.Equal(t, migrate.Offer, f.Message)
	require.Len(t, f.Data, len(large)+2)
	f, err = target.Receive()
	require.NoError(t, err)
	require.Equal(t, Frame{Message: migrate.Go}, f)

	require.NoError(t, target.Send(migrate.Aborted, "why"))
	f, err = source.Receive()
	require.NoError(t, err)
	require.Equal(t, Frame{Message: migrate.Aborted, Data: []byte(`"why"`)}, f)
	require.NoError(t, target.Close())
	_, err = source.Receive()
	require.Error(t, err)
	require.ErrorContains(t, source.Send(migrate.Offer, strings.Repeat("x", longest)), "are possible")
}

// An endless line is refused at the maximum line length, so that memory is bounded.
func TestALineWithoutEndIsRefused(t *testing.T) {
	t.Parallel()
	l, keys := listen(t)
	source, target := meet(t, l, keys, "")
	go func() { _, _ = io.Copy(source.tls, io.LimitReader(zeros{}, 2*longest)) }()
	_, err := target.Receive()
	require.ErrorContains(t, err, "longer than")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// Only the two sides of one migration can connect. A side of another migration, a client without a certificate and a
// client with the other side's certificate are refused.
func TestBothSidesAreChecked(t *testing.T) {
	t.Parallel()
	l, keys := listen(t)
	otherTarget, other, err := NewKeys(keys.Address, time.Now())
	require.NoError(t, err)
	for name, wrong := range map[string]Keys{
		"another target":       other,
		"another authority":    {keys.Address, keys.Authority, other.Certificate, other.Key},
		"a target as a source": {keys.Address, otherTarget.Authority, otherTarget.Certificate, otherTarget.Key},
	} {
		c, err := Dial(t.Context(), wrong, "")
		if err == nil { // TLS 1.3 refuses a client's certificate after the client's handshake
			_, err = c.Receive()
		}
		require.Error(t, err, name)
	}
	stranger, err := net.Dial("tcp", keys.Address) // silent, and does not block other clients
	require.NoError(t, err)
	defer stranger.Close()
	source, target := meet(t, l, keys, "")
	require.NoError(t, source.Send(migrate.Offer, nil))
	f, err := target.Receive()
	require.NoError(t, err)
	require.Equal(t, migrate.Offer, f.Message)
}

// A stream carries bytes in both directions, and the end of each direction.
func TestAStreamIsCarried(t *testing.T) {
	t.Parallel()
	l, keys := listen(t)
	source, target := meet(t, l, keys, "memory")
	ours, theirs, err := Pair()
	require.NoError(t, err)
	far, farTheirs, err := Pair()
	require.NoError(t, err)
	ended := make(chan error, 2)
	go func() { ended <- Carry(t.Context(), source, ours) }()
	go func() { ended <- Carry(t.Context(), target, far) }()
	const size = 32 << 20
	go func() {
		_, _ = io.Copy(struct{ io.Writer }{theirs}, io.LimitReader(zeros{}, size))
		_, _ = theirs.WriteString("end")
	}()
	got := make([]byte, size+3)
	_, err = io.ReadFull(farTheirs, got)
	require.NoError(t, err)
	require.Equal(t, "end", string(got[size:]))
	_, err = farTheirs.WriteString("answer")
	require.NoError(t, err)
	_, err = io.ReadFull(theirs, got[:6])
	require.NoError(t, err)
	require.Equal(t, "answer", string(got[:6]))
	require.NoError(t, farTheirs.Close()) // the other end notices
	n, err := theirs.Read(got)
	require.ErrorIs(t, err, io.EOF, "%d bytes", n)
	require.NoError(t, theirs.Close())
	for range 2 {
		wait.Receive(t, ended, "a stream does not end") // a write may have met the closed end
	}
}

// A stream ends with its context, even while the programs continue.
func TestAStreamEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, keys := listen(t)
	source, target := meet(t, l, keys, "memory")
	ours, theirs, err := Pair()
	require.NoError(t, err)
	defer theirs.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Carry(ctx, source, ours) }()
	cancel()
	require.Error(t, <-ended)
	_, err = theirs.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = target.Receive()
	require.Error(t, err)
}
