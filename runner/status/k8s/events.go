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

// Bounds of events: a guest can reset itself without end, and so can clients of a
// display come and go.
const (
	eventEvery = 10 * time.Second
	eventBurst = 16
	mostKept   = 16 // while the API server is away
)

// eventController reports the events; by it they can be selected.
const eventController = "vmoperator.jdrupes.org/vm-runner"

// An event is one of events.k8s.io/v1.
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

// diary keeps what has happened until it can be reported. Events are for people who
// look into something: each is sent once, and one that can't be sent is forgotten.
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

// record keeps what has happened between two statuses.
func (d *diary) record(before, after status.Status, now time.Time) {
	for _, h := range status.Happenings(before, after, now) {
		if d.allowed.AllowN(now, 1) {
			d.kept = append(d.kept, h)
		}
	}
	d.kept = d.kept[max(len(d.kept)-mostKept, 0):]
}

// send tells the API server, about the VM with a uid.
func (d *diary) send(ctx context.Context, uid string) {
	for _, h := range d.kept {
		body, err := json.Marshal(d.event(h, uid))
		if err == nil {
			err = d.client.do(ctx, http.MethodPost, fmt.Sprintf(eventsPath, d.client.namespace), jsonType, body, nil)
		}
		if err != nil && !d.refused {
			d.refused = true
			d.log.Warn("an event can't be reported", "reason", h.Reason, "err", err)
		}
		if err != nil && code(err) == 0 {
			break // there is no answer, and the next status must not wait for each of them
		}
	}
	d.kept = nil
}

// actionOf is VM-Operator's word for what was done.
func actionOf(h status.Happening) string {
	switch h.Reason {
	case status.ReasonViewerCame, status.ReasonViewerGone:
		return "ConsoleConnectionUpdate"
	}
	return "StatusUpdate"
}

// event is a happening as the API server wants it.
func (d *diary) event(h status.Happening, uid string) event {
	c := d.client
	e := event{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: eventMetadata{c.pod.VM + "-", c.namespace},
		EventTime:           h.At.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		ReportingController: eventController, ReportingInstance: c.pod.Name,
		Action: actionOf(h), Reason: string(h.Reason), Note: said(h.Note, longestNote), Type: "Normal",
		Regarding: regarding{apiVersion, kind, c.namespace, c.pod.VM, uid},
	}
	if h.Warning {
		e.Type = "Warning"
	}
	return e
}
