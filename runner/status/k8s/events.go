package k8s

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"vmop/runner/status"
	"vmop/vmstatus"
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

// happening is what an event tells of.
type happening struct {
	at                   time.Time
	action, reason, note string
	warning              bool
}

// happenings are what has happened between two statuses: another reason, and who has
// come to look at the screen or has gone.
func happenings(before, after status.Status, now time.Time) []happening {
	var all []happening
	if after.Reason != before.Reason {
		bad := after.Outcome != nil && after.Outcome.ExitCode != 0 || after.Reason == vmstatus.ReasonStartFailed
		all = append(all, happening{now, "StatusUpdate", string(after.Reason), sentence(after), bad})
	}
	if after.State == vmstatus.StateStopped {
		return all
	}
	for _, c := range before.Consoles {
		if !slices.Contains(after.Consoles, c) {
			all = append(all, happening{
				now, "ConsoleConnectionUpdate", "ConsoleDisconnected", viewerOf(c),
				false,
			})
		}
	}
	for _, c := range after.Consoles {
		if !slices.Contains(before.Consoles, c) {
			all = append(all, happening{
				now, "ConsoleConnectionUpdate", "ConsoleConnected", viewerOf(c),
				false,
			})
		}
	}
	return all
}

// viewerOf names a viewer: "vnc alice, watching".
func viewerOf(c status.Console) string {
	text := c.Kind + " " + c.Name()
	if c.Mode == status.ModeWatch {
		text += ", watching"
	}
	return text
}

// sentence says why a VM is in its state, for those who don't know the reasons.
func sentence(s status.Status) string {
	switch {
	case s.Message != "":
		return s.Message
	case s.Outcome != nil:
		return "the VM has ended: " + string(s.Outcome.Cause)
	}
	switch s.Reason {
	case vmstatus.ReasonRunnerStarted:
		return "the runner is preparing the machine"
	case vmstatus.ReasonVMStarted:
		return "the guest is running"
	case vmstatus.ReasonNoGuestAgent:
		return "the guest is running; its agent does not answer"
	case vmstatus.ReasonVMBooted:
		return "the guest has booted: its agent has answered"
	case vmstatus.ReasonVMReset:
		return "the guest was reset and is booting again"
	case vmstatus.ReasonRunnerRestarted:
		return "a new runner has taken over the VM, which kept running without one"
	case vmstatus.ReasonVMTerminating:
		return "a stop was requested"
	}
	return "the VM has ended"
}

// diary keeps what has happened until it can be reported. Events are for people who
// look into something: each is sent once, and one that can't be sent is forgotten.
type diary struct {
	client  *client
	log     *slog.Logger
	allowed *rate.Limiter
	kept    []happening
	refused bool
}

func newDiary(c *client, log *slog.Logger) *diary {
	return &diary{client: c, log: log, allowed: rate.NewLimiter(rate.Every(eventEvery), eventBurst)}
}

// record keeps what has happened between two statuses.
func (d *diary) record(before, after status.Status, now time.Time) {
	for _, h := range happenings(before, after, now) {
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
			d.log.Warn("an event can't be reported", "reason", h.reason, "err", err)
		}
		if err != nil && code(err) == 0 {
			break // there is no answer, and the next status must not wait for each of them
		}
	}
	d.kept = nil
}

// event is a happening as the API server wants it.
func (d *diary) event(h happening, uid string) event {
	c := d.client
	e := event{
		APIVersion: "events.k8s.io/v1", Kind: "Event", Metadata: eventMetadata{c.pod.VM + "-", c.namespace},
		EventTime:           h.at.UTC().Format("2006-01-02T15:04:05.000000Z07:00"),
		ReportingController: eventController, ReportingInstance: c.pod.Name,
		Action: h.action, Reason: h.reason, Note: said(h.note, longestNote), Type: "Normal",
		Regarding: regarding{apiVersion, kind, c.namespace, c.pod.VM, uid},
	}
	if h.warning {
		e.Type = "Warning"
	}
	return e
}
