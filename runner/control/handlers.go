package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"time"

	"vmop/internal/printable"
	"vmop/qmp"
	"vmop/runner/status"
	"vmop/vmtypes"
	"vmop/vmtypes/plan"
)

// Limits of requests.
const (
	actionTime   = 30 * time.Second // for pause, resume and reset
	commandTime  = 30 * time.Second // for a QMP command, unless the client gives another
	maxTime      = 10 * time.Minute
	bodyTime     = 10 * time.Second // to send a body
	maxBody      = 1 << 20
	jsonType     = "application/json"
	plainType    = "text/plain; charset=utf-8"
	metricsType  = "text/plain; version=0.0.4; charset=utf-8"
	eventsType   = "application/jsonl"
	pngType      = "image/png"
	upgradeToken = "tcp"
)

// allHandlers returns the requests that docs/reference/control.md describes, by method and path.
func (s *Server) allHandlers() map[string]func(http.ResponseWriter, *http.Request) error {
	return map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/status":     s.getStatus,
		"GET /v1/events":     s.getEvents,
		"GET /v1/pending":    s.getPending,
		"GET /v1/plan":       s.getPlan,
		"GET /v1/devices":    s.getDevices,
		"POST /v1/forecast":  s.postForecast,
		"GET /v1/source":     s.getSource,
		"GET /v1/metrics":    s.getMetrics,
		"GET /v1/usage":      s.getUsage,
		"GET /v1/history":    s.getHistory,
		"GET /v1/screenshot": s.getScreenshot,
		"GET /v1/console":    s.getConsole,
		"GET /v1/screen":     s.getScreen,
		"GET /v1/spice":      s.getSPICE,
		"GET /v1/vnc":        s.getVNC,
		"GET /v1/forward":    s.getForward,
		"POST /v1/stop":      s.postStop,
		"POST /v1/reset":     s.actionHandler(Reset),
		"POST /v1/pause":     s.actionHandler(Pause),
		"POST /v1/resume":    s.actionHandler(Resume),
		"POST /v1/reclaim":   s.actionHandler(Reclaim),
		"POST /v1/freeze":    s.postFreeze,
		"POST /v1/thaw":      s.postThaw,
		"POST /v1/snapshots": s.postSnapshot,
		"GET /v1/invitation": s.getInvitation,
		"POST /v1/migrate":   s.postMigrate,
		"POST /v1/qmp":       s.postQMP,
	}
}

func (s *Server) handlerWith(allowed func(string) bool) http.Handler {
	mux := http.NewServeMux()
	for pattern, handler := range s.allHandlers() {
		if !allowed(pattern) {
			continue
		}
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if !isBrief(pattern) {
				defer s.lasting.Add(-1)
				if s.lasting.Add(1) > MaxLasting {
					s.refuseRequest(w, r, errFull)
					return
				}
			}
			if err := handler(w, r); err != nil {
				s.refuseRequest(w, r, err)
			}
		})
	}
	return mux
}

// isBrief reports whether a request is answered immediately.
func isBrief(pattern string) bool {
	switch pattern {
	case "GET /v1/status", "GET /v1/pending", "GET /v1/plan", "GET /v1/source", "GET /v1/metrics", "POST /v1/stop":
		return true
	}
	return false
}

// errFull is the error for a stream or command beyond MaxLasting.
var errFull = fmt.Errorf("%d streams and commands are open, and no more are served at a time: close consoles, screens or "+
	"readers of events", MaxLasting)

// errWithdrawn is the error for a request after its client has disconnected.
var errWithdrawn = errors.New("the client has disconnected: the request is not carried out")

// badRequest is an invalid request.
type badRequest struct{ error }

// notThere is the error for an object that this VM does not have.
type notThere string

func (e notThere) Error() string { return string(e) }

// answerError is the body of an answer that reports a failure.
type answerError struct {
	Error string    `json:"error"`
	Class qmp.Class `json:"class,omitempty"` // if QEMU refused the command
}

func (s *Server) refuseRequest(w http.ResponseWriter, r *http.Request, err error) {
	body := answerError{Error: err.Error()}
	var refused *qmp.Error
	var refusal Refusal
	code := http.StatusInternalServerError
	switch {
	case errors.As(err, &refused):
		code, body = http.StatusUnprocessableEntity, answerError{Error: refused.Desc, Class: refused.Class}
	case errors.As(err, &refusal):
		code = http.StatusConflict
	case errors.Is(err, errFull):
		code = http.StatusServiceUnavailable
	case errors.As(err, new(inUse)):
		code = http.StatusLocked
	case errors.As(err, new(badRequest)):
		code = http.StatusBadRequest
	case errors.As(err, new(notThere)):
		code = http.StatusNotFound
	case errors.Is(err, context.DeadlineExceeded):
		code = http.StatusGatewayTimeout
	}
	s.opts.Log.Debug("control request", "command", r.Method+" "+r.URL.Path, "client", clientOf(r.Context()), "err", err)
	w.Header().Set("Content-Type", jsonType)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(body) // the client may have disconnected
}

// sendBody sends an answer.
func sendBody(w http.ResponseWriter, contentType string, body []byte) error {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have disconnected
	return nil
}

func giveJSON(w http.ResponseWriter, value any) error {
	body, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	return sendBody(w, jsonType, append(body, '\n'))
}

func (s *Server) getStatus(w http.ResponseWriter, _ *http.Request) error {
	return giveJSON(w, s.opts.Tracker.Status())
}

func (s *Server) getPending(w http.ResponseWriter, _ *http.Request) error {
	pending := s.opts.Tracker.Status().RestartAwaitingChanges
	if pending == nil {
		pending = []status.Change{}
	}
	return giveJSON(w, pending)
}

func (s *Server) postStop(w http.ResponseWriter, r *http.Request) error {
	force, err := booleanParameter(r, "force")
	if err != nil {
		return err
	}
	if force {
		return s.actionHandler(Kill)(w, r)
	}
	return s.actionHandler(Stop)(w, r)
}

// actionContext returns the context of an action: it ends with its time limit, and when the client closes the
// connection. A client that has only finished sending is still waiting.
func actionContext(request context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request), limit)
	stop := context.AfterFunc(request, func() {
		if isClientGone(request) {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

func booleanParameter(r *http.Request, name string) (bool, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return false, nil
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest{fmt.Errorf("%s=%q: must be true or false", name, text)}
	}
	return value, nil
}

func (s *Server) actionHandler(what Action) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		ctx, cancel := actionContext(r.Context(), actionTime)
		defer cancel()
		client := senderOf(r).String()
		s.opts.Log.Info("requested by a user", "command", string(what), "client", client)
		err := errWithdrawn // remains if the runner was delayed, for example because it was stopped
		if !isClientGone(ctx) {
			err = s.opts.Backend.Act(ctx, what, client)
		}
		if err != nil {
			s.opts.Log.Info("the request was not carried out", "command", string(what), "client", client, "err", err)
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
}

// planOfVM returns the plan of the VM.
func (s *Server) planOfVM() (*plan.Plan, error) {
	p := s.opts.Backend.Plan()
	if p == nil {
		return nil, Refusal("the VM has no plan yet")
	}
	return p, nil
}

// socketFor returns the path of a socket of the plan.
func (s *Server) socketFor(role string) (string, error) {
	p, err := s.planOfVM()
	if err != nil {
		return "", err
	}
	path := p.Socket(role)
	if path == "" {
		names := map[string]string{
			"console": "serial console (vm.serialConsole)", "vnc": "VNC server (vm.display.vnc)",
			"screen": "screen (vm.display), or was started by an earlier version without this stream",
		}
		return "", notThere("the VM has no " + names[role])
	}
	return path, nil
}

func (s *Server) getPlan(w http.ResponseWriter, r *http.Request) error {
	p, err := s.planOfVM()
	if err != nil {
		return err
	}
	switch form := r.URL.Query().Get("form"); form {
	case "", "text":
		return sendBody(w, plainType, []byte(p.Text()))
	case "why":
		return sendBody(w, plainType, []byte(p.Why()))
	case "argv":
		return sendBody(w, plainType, []byte(p.Command()))
	case "shell":
		return sendBody(w, plainType, []byte(p.Shell()))
	case "json":
		body, err := p.JSON()
		if err != nil {
			return err
		}
		return sendBody(w, jsonType, body)
	default:
		return badRequest{fmt.Errorf("form=%q: must be text, why, argv, shell or json", form)}
	}
}

// getDevices answers with the devices of the machine and their names in the guest.
func (s *Server) getDevices(w http.ResponseWriter, r *http.Request) error {
	if s.opts.Devices == nil {
		return Refusal("the VM has no machine yet")
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTime)
	defer cancel()
	report, err := s.opts.Devices(ctx)
	if err != nil {
		return err
	}
	return giveJSON(w, report)
}

// getSource answers with a module of the VM's type. The plan refers to lines of these modules.
func (s *Server) getSource(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("module")
	if s.opts.Archive != nil {
		if text, found := vmtypes.ArchivedModule(s.opts.Archive(), name); found {
			return sendBody(w, plainType, text)
		}
	}
	return notThere(fmt.Sprintf("the VM type has no module %q", name))
}

func (s *Server) getMetrics(w http.ResponseWriter, r *http.Request) error {
	st := s.opts.Tracker.Status()
	proc := os.DirFS("/proc")
	ctx, cancel := context.WithTimeout(r.Context(), metricsTime)
	defer cancel()
	t, _ := s.trafficOfDevices(ctx) // empty while QEMU is starting or ending, or doesn't answer
	return sendBody(w, metricsType, metricsText(st, sample{
		cpu:         processorTime(proc, st.QEMU.PID),
		traffic:     t,
		now:         time.Now(),
		dropped:     s.opts.Backend.Dropped(),
		clients:     int(s.clients.Load() + s.far.Load()),
		runner:      residentBytes(proc, os.Getpid()),
		qemu:        residentBytes(proc, st.QEMU.PID),
		goroutines:  runtime.NumGoroutine(),
		descriptors: openDescriptors(proc, os.Getpid()),
	}))
}

// postQMP sends a command to QEMU.
func (s *Server) postQMP(w http.ResponseWriter, r *http.Request) error {
	command, err := readCommand(w, r)
	if err != nil {
		return badRequest{err}
	}
	limit := commandTime
	if text := r.URL.Query().Get("timeout"); text != "" {
		if limit, err = time.ParseDuration(text); err != nil || limit <= 0 || limit > maxTime {
			return badRequest{fmt.Errorf("timeout=%q: must be a duration such as 30s, at most %s", text, maxTime)}
		}
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	s.opts.Log.Info("QMP command of a user", "command", command, "client", clientOf(ctx))
	reply, err := s.opts.Backend.Run(ctx, command)
	if err != nil {
		return err
	}
	return giveJSON(w, struct {
		Return json.RawMessage `json:"return"`
	}{reply})
}

// commandBody is a QMP command as a client sends it; qmp.Command hides secrets.
type commandBody struct {
	Execute   string          `json:"execute"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// mostQuoted limits the quoted part of an unreadable command in an answer, in characters.
const mostQuoted = 300

// readBody reads the body of a request, at most maxBody bytes.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime)) // a unix socket has deadlines
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

func readCommand(w http.ResponseWriter, r *http.Request) (qmp.Command, error) {
	body, err := readBody(w, r)
	if err != nil {
		return qmp.Command{}, fmt.Errorf("read the QMP command: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	var c commandBody
	if err := dec.Decode(&c); err != nil {
		return qmp.Command{}, errors.New("read the QMP command: " + printable.Clip(err.Error(), mostQuoted))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return qmp.Command{}, errors.New("read the QMP command: data after the JSON object")
	}
	if c.Execute == "" {
		return qmp.Command{}, errors.New(`read the QMP command: must be {"execute": "query-status", "arguments": {…}}`)
	}
	command := qmp.Command{Execute: c.Execute}
	if len(c.Arguments) > 0 {
		command.Arguments = c.Arguments
	}
	return command, nil
}
