package control

import (
	"context"
	"fmt"
	"net/http"

	"vmop/runner/status"
)

// A Forecast contains the effects that another configuration would have on a running VM.
type Forecast struct {
	// Now are the changes that take effect immediately, Later the changes that need a restart.
	Now   []status.Change `json:"now"`
	Later []status.Change `json:"later"`
	// Fault is the reason why the runner would refuse the configuration; "" if it would accept it.
	Fault string `json:"fault,omitempty"`
}

// postForecast answers with the effects of another configuration, without changing the VM.
func (s *Server) postForecast(w http.ResponseWriter, r *http.Request) error {
	if s.opts.Forecast == nil {
		return Refusal("the VM has no machine yet")
	}
	text, err := readBody(w, r)
	if err != nil {
		return badRequest{fmt.Errorf("read the configuration: %w", err)}
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTime)
	defer cancel()
	f, err := s.opts.Forecast(ctx, text)
	if err != nil {
		return err
	}
	return giveJSON(w, f)
}

// Forecast returns the effects of another configuration, as YAML, without changing the VM.
func (c *Client) Forecast(ctx context.Context, configuration []byte) (f Forecast, err error) {
	err = c.postJSON(ctx, "/v1/forecast", configuration, &f)
	return f, err
}
