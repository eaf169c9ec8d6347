package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
)

// What is given up because the manager stops is no error; all else is.
func TestNothingIsSaidOfWhatIsGivenUp(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	ctx, stop := context.WithCancel(t.Context())
	libraries := logr.FromSlogHandler(quiet{slog.NewTextHandler(&log, nil), ctx.Err}).WithName("lease").WithValues(
		"lock", "x")
	givenUp := fmt.Errorf("update the lease: %w", &url.Error{Op: "Put", URL: "https://server", Err: context.Canceled})

	libraries.Error(givenUp, "another context was cancelled")
	require.Contains(t, log.String(), "another context was cancelled")
	log.Reset()
	stop()
	libraries.Error(givenUp, "given up")
	libraries.Error(errors.New("leader election lost"), "error received after stop sequence was engaged")
	require.Empty(t, log.String())
	libraries.Error(errors.New("no route"), "not freed")
	require.Contains(t, log.String(), "not freed")
}
