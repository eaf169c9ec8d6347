package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"vmop/runner/status"
)

// Limits of events, because a guest can reset itself without end, and clients of a display can come and go.
const (
	eventEvery = 10 * time.Second
	eventBurst = 16
	mostKept   = 16 // while the API server can't be reached
)

// eventController is the reporting controller of the events; use it to select them.
const eventController = "vmoperator.jdrupes.org/vm-runner"

// An event is an event of events.k8s.io/v1.
type event struct {
	APIVersion          string        `json:"apiVersion"`
	Kind                string        `json:"kind"`
	Metadata            eventMetadata `json:"metadata"`
	EventTime           string        `json:"eventTime"`
	ReportingController string        `json:"reportingController"`
	ReportingInstance   string        `json:"reportingInstance"`
	Action              string        `json:"action"`
	Reason              string        `json:"reason"`
	Regarding           regarding     `json:"regarding"`
	Note                string        `json:"note,omitempty"`
	Type                string        `json:"type"`
}

type eventMetadata struct {
	GenerateName string `json:"generateName"`
	Namespace    string `json:"namespace"`
}

type regarding struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid,omitempty"`
}

// diary keeps happenings until they can be reported. Events help people who investigate, so each is sent once,
// and dropped if sending fails.
type diary struct {
	client  *client
	log     *slog.Logger
	allowed *rate.Limiter
	kept    []status.Happening
	refused bool
}

func newDiary(c *client, log *slog.Logger) *diary {
	return &diary{client: c, log: log, allowed: rate.NewLimiter(rate.Every(eventEvery), eventBurst)}
}

// recordHappenings keeps what has happened between two statuses.
func (d *diary) recordHappenings(before, after status.Status, now time.Time) {
	for _, h := range status.Happenings(before, after, now) {
		if d.allowed.AllowN(now, 1) {
			d.kept = append(d.kept, h)
		}
	}
	d.kept = d.kept[max(len(d.kept)-mostKept, 0):]
}

// sendEvents sends the events to the API server. uid is the VM's uid.
func (d *diary) sendEvents(ctx context.Context, uid string) {
	for _, h := range d.kept {
		body, err := json.Marshal(d.newEvent(h, uid))
		if err == nil {
			err = d.client.doRequest(ctx, http.MethodPost, fmt.Sprintf(eventsPath, d.client.namespace), jsonType, body,
				nil)
		}
		if err != nil && !d.refused {
			d.refused = true
			d.log.Warn("an event can't be reported", "reason", h.Reason, "err", err)
		}
		if err != nil && statusCode(err) == 0 {
			break // no answer: the next status must not wait for each event
		}
	}
	d.kept = nil
}

// actionOf returns VM-Operator's name for the action.
func actionOf(h status.Happening) string {
	switch h.Reason {
	case status.ReasonViewerCame, status.ReasonViewerGone:
		return "ConsoleConnectionUpdate"
	}
	return "StatusUpdate"
}

// newEvent returns a happening in the form of the API server.
func (d *diary) newEvent(h status.Happening, uid string) event {
	c := d.client
	e := event{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: eventMetadata{c.pod.VM + "-", c.namespace},
		EventTime:           h.At.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		ReportingController: eventController, ReportingInstance: c.pod.Name,
		Action: actionOf(h), Reason: string(h.Reason), Note: cleanMessage(h.Note, longestNote), Type: "Normal",
		Regarding: regarding{apiVersion, kind, c.namespace, c.pod.VM, uid},
	}
	if h.Warning {
		e.Type = "Warning"
	}
	return e
}
