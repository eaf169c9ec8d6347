package control

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"vmop/vmstatus"
)

// migrator records its requests without moving a guest.
type migrator struct{ asked []MigrationRequest }

func (m *migrator) Migrate(_ context.Context, r MigrationRequest, _ func(vmstatus.Progress)) error {
	m.asked = append(m.asked, r)
	return nil
}

// A valid migration request reaches the migrator unchanged. A request with a missing, wrong or unknown part is refused.
func TestRequestsToMigrate(t *testing.T) {
	t.Parallel()
	for text, valid := range map[string]bool{
		`{"invitation": {"a": 1}, "downtime": 5, "bandwidth": 7}`: true,
		`{"invitation": {"a": 1}, "downtime": -1}`:                false,
		`{"invitation": {"a": 1}, "bandwidth": -1}`:               false,
		`{"invitation": {"a": 1}, "speed": 7}`:                    false,
		`{"downtime": 5}`:                                         false,
		`{"invitation": `:                                         false,
		``:                                                        false,
		`{"invitation": "` + strings.Repeat("x", maxBody) + `"}`: false,
	} {
		m := &migrator{}
		s := &Server{opts: Options{Migrator: m, Log: slog.New(slog.DiscardHandler)}}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/migrate", strings.NewReader(text))
		w := httptest.NewRecorder()
		err := s.postMigrate(w, r)
		if !valid {
			require.ErrorAs(t, err, &badRequest{}, text)
			require.Empty(t, m.asked)
			continue
		}
		require.NoError(t, err)
		want := MigrationRequest{Invitation: json.RawMessage(`{"a": 1}`), Downtime: 5 * time.Nanosecond, Bandwidth: 7}
		require.Equal(t, []MigrationRequest{want}, m.asked)
		require.JSONEq(t, `{"moved": true}`, w.Body.String())
	}
	s := &Server{opts: Options{Log: slog.New(slog.DiscardHandler)}}
	err := s.postMigrate(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", nil))
	require.ErrorAs(t, err, new(notThere))
}
