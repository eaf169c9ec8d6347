package k8s

import (
	"encoding/json"
	"net"
	"net/netip"
	"strings"
	"time"

	"vmop/runner/status"
	"vmop/vmstatus"
)

// What a VM is in the cluster.
const (
	apiVersion = "vmoperator.jdrupes.org/v1"
	kind       = "VirtualMachine"
)

// report is the runner's part of the resource, as it is applied. Its fields are
// those of VirtualMachineStatus in vmop/api/v1, which the runner doesn't import: it
// would carry all types of Kubernetes with it.
type report struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Metadata   metadata `json:"metadata"`
	Status     vmStatus `json:"status"`
}

type metadata struct {
	Name string `json:"name"`
}

type vmStatus struct {
	Runner                   runner             `json:"runner"`
	VMType                   string             `json:"vmType,omitempty"`
	UUID                     string             `json:"uuid,omitempty"`
	RunnerVersion            string             `json:"runnerVersion,omitempty"`
	CPUs                     int                `json:"cpus"`
	RAM                      string             `json:"ram"`
	ConsoleClient            string             `json:"consoleClient"`
	LoggedInUser             string             `json:"loggedInUser,omitempty"`
	DisplayPasswordSerial    int                `json:"displayPasswordSerial"`
	OSInfo                   map[string]any     `json:"osinfo,omitempty"`
	Interfaces               []guestInterface   `json:"interfaces,omitempty"`
	Addresses                []address          `json:"addresses,omitempty"`
	RestartAwaitingChanges   []Change           `json:"restartAwaitingChanges,omitempty"`
	RestartAwaitingArguments []string           `json:"restartAwaitingArguments,omitempty"`
	Conditions               []status.Condition `json:"conditions"`
}

type runner struct {
	PodName string   `json:"podName,omitempty"`
	PodUID  string   `json:"podUID,omitempty"`
	State   string   `json:"state"`
	Reason  string   `json:"reason,omitempty"`
	Message string   `json:"message,omitempty"`
	Outcome *outcome `json:"outcome,omitempty"`

	// Compared is the generation of which it is known what awaits a restart.
	Compared int64 `json:"comparedGeneration,omitempty"`

	Control *status.Control `json:"control,omitempty"`

	Drives         []drive `json:"drives,omitempty"`
	DrivesRevision int64   `json:"drivesRevision,omitempty"`
	AwaitsServers  bool    `json:"awaitsServers"` // as this runner does
}

type drive struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Message  string `json:"message,omitempty"`
	Capacity int64  `json:"capacity,omitempty"`
}

type outcome struct {
	Cause    vmstatus.Cause `json:"cause"`
	Reason   string         `json:"reason,omitempty"`
	ExitCode int            `json:"exitCode,omitempty"`
	Message  string         `json:"message,omitempty"`
}

type guestInterface struct {
	Name string   `json:"name,omitempty"`
	MAC  string   `json:"mac,omitempty"`
	IPs  []string `json:"ips,omitempty"`
}

type address struct {
	Address   string        `json:"address"`
	Interface string        `json:"interface,omitempty"`
	MAC       string        `json:"mac,omitempty"`
	Ports     []addressPort `json:"ports,omitempty"`
	From      status.Reach  `json:"from"`
	Source    status.Source `json:"source"`
}

type addressPort struct {
	Port     int    `json:"port"`
	Guest    int    `json:"guest"`
	Protocol string `json:"protocol"`
}

// newReport says of a status what belongs into the resource. since has the
// transition times of the conditions.
func newReport(pod *Pod, s status.Status, since transitions) report {
	r := report{APIVersion: apiVersion, Kind: kind, Metadata: metadata{pod.VM}}
	r.Status = vmStatus{
		Runner: runner{
			PodName: pod.Name, PodUID: pod.UID,
			State: string(s.State), Reason: string(s.Reason), Message: said(s.Message, longestText),
			Outcome: outcomeOf(s), Control: s.Control, Compared: s.Configuration.Compared,
			Drives: drives(s.Drives), DrivesRevision: s.DrivesRevision, AwaitsServers: true,
		},
		VMType: clean(s.VMType, longestValue), UUID: s.UUID, RunnerVersion: s.Runner.Version,
		CPUs: s.CPUs, RAM: quantity(s.RAM),
		ConsoleClient: consoleClient(s), LoggedInUser: clean(s.LoggedInUser, longestValue),
		DisplayPasswordSerial:    s.DisplayPasswordSerial,
		RestartAwaitingChanges:   Pending(s.RestartAwaitingChanges),
		RestartAwaitingArguments: cleanLines(s.RestartAwaitingArguments),
		Addresses:                addresses(s.Addresses),
	}
	if s.Guest != nil {
		r.Status.OSInfo, r.Status.Interfaces = osInfo(s.Guest.OS), interfaces(s.Guest.Interfaces)
	}
	for _, c := range s.Conditions {
		if c.Type == vmstatus.ConditionRestartRequired { // is the manager's: it knows of more changes
			continue
		}
		c.LastTransitionTime, c.Message = since.of(c), said(c.Message, longestText)
		r.Status.Conditions = append(r.Status.Conditions, c)
	}
	return r
}

// plain leaves out of a report what others have said: guests, clients, the
// configuration. It is for an API server that has refused the whole.
func (r report) plain() report {
	s := &r.Status
	s.OSInfo, s.Interfaces, s.Addresses, s.LoggedInUser, s.ConsoleClient = nil, nil, nil, "", ""
	s.RestartAwaitingChanges, s.RestartAwaitingArguments = nil, nil
	s.Runner.Message = ""
	if s.Runner.Outcome != nil {
		s.Runner.Outcome = &outcome{
			Cause: s.Runner.Outcome.Cause, Reason: s.Runner.Outcome.Reason,
			ExitCode: s.Runner.Outcome.ExitCode,
		}
	}
	conditions := make([]status.Condition, len(s.Conditions))
	for i, c := range s.Conditions {
		c.Message = ""
		conditions[i] = c
	}
	s.Conditions = conditions
	return r
}

// body is a report as it is sent.
func (r report) body() ([]byte, error) { return json.Marshal(r) }

// drives returns those that were attached while the guest runs, or are to be. Serial numbers, which
// are different, are of characters that all can read.
func drives(known []status.Drive) (all []drive) {
	for _, d := range known[:min(len(known), mostPending)] {
		all = append(all, drive{d.Name, d.State, said(d.Message, longestText), d.Capacity})
	}
	return all
}

func outcomeOf(s status.Status) *outcome {
	if s.Outcome == nil {
		return nil
	}
	o := s.Outcome
	return &outcome{
		Cause: o.Cause, Reason: clean(o.Reason, longestValue), ExitCode: o.ExitCode,
		Message: said(o.Message, longestText),
	}
}

// consoleClient returns the host of whoever has looked at the screen for the
// longest time.
func consoleClient(s status.Status) string {
	for _, c := range s.Consoles {
		if c.Kind == status.Serial {
			continue
		}
		if host, _, err := net.SplitHostPort(c.Client); err == nil {
			return clean(host, longestValue)
		}
		return clean(c.Client, longestValue)
	}
	return ""
}

// osInfo returns what the guest says of its system, with the agent's names.
func osInfo(info *status.OSInfo) map[string]any {
	if info == nil {
		return nil
	}
	text, err := json.Marshal(info)
	if err != nil {
		return nil
	}
	var all map[string]any
	if json.Unmarshal(text, &all) != nil {
		return nil
	}
	for key, value := range all {
		all[key] = inWords(value)
	}
	return all
}

// interfaces returns those of the guest, with addresses only: a prefix is of no use
// to who wants to reach it.
func interfaces(said []status.Interface) []guestInterface {
	var all []guestInterface
	for _, s := range said[:min(len(said), mostInterfaces)] {
		i := guestInterface{Name: clean(s.Name, longestValue), MAC: clean(s.MAC, longestValue)}
		for _, a := range s.Addresses {
			prefix, err := netip.ParsePrefix(a)
			if err == nil && len(i.IPs) < mostAddresses {
				i.IPs = append(i.IPs, prefix.Addr().String())
			}
		}
		all = append(all, i)
	}
	return all
}

// fromPod is what the resource calls the host, which is the pod there.
const fromPod status.Reach = "Pod"

// addresses returns where the guest answers.
func addresses(known []status.Address) []address {
	var all []address
	for _, k := range known {
		a := address{
			Address: k.Address, Interface: clean(k.Interface, longestValue), MAC: k.MAC, From: k.From, Source: k.Source,
		}
		if a.From == status.FromHost {
			a.From = fromPod
		}
		for _, p := range k.Ports[:min(len(k.Ports), mostPorts)] {
			a.Ports = append(a.Ports, addressPort{p.Port, p.Guest, strings.ToUpper(p.Protocol)})
		}
		all = append(all, a)
	}
	return all
}

// transitions are the conditions that were reported last: their status, and since
// when they have it.
type transitions map[vmstatus.ConditionType]status.Condition

// remember takes over what the resource says: a runner that adopts a VM, and
// one that is started again, changes no time of what hasn't changed.
func (t transitions) remember(conditions []status.Condition) {
	for _, c := range conditions {
		t[c.Type] = c
	}
}

// of returns since when a condition has its status, in whole seconds, as the
// resource has it. What the definition of the resource says of a new one has no
// time.
func (t transitions) of(c status.Condition) time.Time {
	if before, ok := t[c.Type]; ok && before.Status == c.Status && before.LastTransitionTime.Unix() > 0 {
		return before.LastTransitionTime
	}
	return c.LastTransitionTime.UTC().Truncate(time.Second)
}
