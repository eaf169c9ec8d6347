package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"

	"vmop/internal/javalogging"
)

// Levels come from logging.properties, with the most specific logger first, unless they are fixed; otherwise the
// defaults apply.
func TestLevels(t *testing.T) {
	t.Parallel()
	beside := filepath.Join(t.TempDir(), "config.yaml")
	file := filepath.Join(filepath.Dir(beside), javalogging.File)
	for _, row := range []struct{ text, manager, libraries string }{
		{"", "INFO", "WARN"},
		{".level=FINE\n", "DEBUG", "DEBUG"},
		{"org.jdrupes.vmoperator.manager.level=FINE\n.level=SEVERE\n", "DEBUG", "ERROR"},
		{"io.kubernetes.level=SEVERE\n.level=FINE\n", "DEBUG", "ERROR"},
	} {
		var levels, fixed Levels
		fixed.Fixed = true
		if row.text != "" {
			require.NoError(t, os.WriteFile(file, []byte(row.text), 0o600))
		}
		for _, l := range []*Levels{&levels, &fixed} {
			warnings, err := l.readLevels(beside)
			require.NoError(t, err)
			require.Empty(t, warnings)
		}
		require.Equal(t, row.manager, levels.Manager.Level().String(), row.text)
		require.Equal(t, row.libraries, levels.Libraries.Level().String(), row.text)
		require.Zero(t, fixed.Manager.Level(), "what slog begins with")
		require.Zero(t, fixed.Libraries.Level())
	}
	require.NoError(t, os.WriteFile(file, []byte(".level=LOUD\n"), 0o600))
	var levels Levels
	warnings, err := levels.readLevels(beside)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], file)
	_, err = levels.readLevels(filepath.Join(file, "below", "config.yaml"))
	require.ErrorContains(t, err, "read logging configuration: ")
}

// Work canceled because the manager stops isn't logged as an error; all other errors are.
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
