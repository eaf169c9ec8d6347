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

// The VM's API version and kind in the cluster.
const (
	apiVersion = "vmoperator.jdrupes.org/v1"
	kind       = "VirtualMachine"
)

// report is the runner's part of the resource for a server-side apply. Its fields match VirtualMachineStatus in
// vmop/api/v1. The runner doesn't import that package, because it would link all types of Kubernetes.
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
	VMTypes                  string             `json:"vmTypes,omitempty"`
	UUID                     string             `json:"uuid,omitempty"`
	RunnerVersion            string             `json:"runnerVersion,omitempty"`
	CPUs                     int                `json:"cpus"`
	RAM                      string             `json:"ram"`
	ConsoleClient            string             `json:"consoleClient"`
	LoggedInUser             string             `json:"loggedInUser,omitempty"`
	DisplayPasswordSerial    int                `json:"displayPasswordSerial"`
	OSInfo                   map[string]any     `json:"osinfo,omitempty"`
	Interfaces               []guestInterface   `json:"interfaces,omitempty"`
	Addresses                []status.Address   `json:"addresses,omitempty"`
	RestartAwaitingChanges   []Change           `json:"restartAwaitingChanges,omitempty"`
	RestartAwaitingArguments []string           `json:"restartAwaitingArguments,omitempty"`
	Conditions               []status.Condition `json:"conditions"`
}

type runner struct {
	PodName string          `json:"podName,omitempty"`
	PodUID  string          `json:"podUID,omitempty"`
	State   string          `json:"state"`
	Reason  string          `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"`
	Outcome *status.Outcome `json:"outcome,omitempty"`

	// Compared is the newest generation with known pending changes.
	Compared int64 `json:"comparedGeneration,omitempty"`

	Control *status.Control `json:"control,omitempty"`

	Drives         []status.Drive `json:"drives,omitempty"`
	DrivesRevision int64          `json:"drivesRevision,omitempty"`
	AwaitsServers  bool           `json:"awaitsServers"` // this runner does
}

type guestInterface struct {
	Name string   `json:"name,omitempty"`
	MAC  string   `json:"mac,omitempty"`
	IPs  []string `json:"ips,omitempty"`
}

// newReport returns the part of a status that belongs in the resource. since contains the transition times of the
// conditions.
func newReport(pod *Pod, s status.Status, since transitions) report {
	r := report{APIVersion: apiVersion, Kind: kind, Metadata: metadata{pod.VM}}
	r.Status = vmStatus{
		Runner: runner{
			PodName: pod.Name, PodUID: pod.UID,
			State: string(s.State), Reason: string(s.Reason), Message: cleanMessage(s.Message, longestText),
			Outcome: outcomeOfEnd(s), Control: s.Control, Compared: s.Configuration.Compared,
			Drives: attachedDrives(s.Drives), DrivesRevision: s.DrivesRevision, AwaitsServers: true,
		},
		VMType: cleanText(s.VMType, longestValue), VMTypes: cleanText(s.VMTypes, longestValue),
		UUID: s.UUID, RunnerVersion: s.Runner.Version,
		CPUs: s.CPUs, RAM: formatQuantity(s.RAM),
		ConsoleClient: consoleClient(s), LoggedInUser: cleanText(s.LoggedInUser, longestValue),
		DisplayPasswordSerial:    s.DisplayPasswordSerial,
		RestartAwaitingChanges:   Pending(s.RestartAwaitingChanges),
		RestartAwaitingArguments: cleanLines(s.RestartAwaitingArguments),
		Addresses:                guestAddresses(s.Addresses),
	}
	if s.Guest != nil {
		r.Status.OSInfo, r.Status.Interfaces = osInfo(s.Guest.OS), guestInterfaces(s.Guest.Interfaces)
	}
	for _, c := range s.Conditions {
		if c.Type == vmstatus.ConditionRestartRequired { // the manager sets it, because it knows more changes
			continue
		}
		c.LastTransitionTime, c.Message = since.timeOf(c), cleanMessage(c.Message, longestText)
		r.Status.Conditions = append(r.Status.Conditions, c)
	}
	return r
}

// withoutOthers removes from a report the texts of others: guests, clients, the configuration. It is used when the API
// server has refused the full report.
func (r report) withoutOthers() report {
	s := &r.Status
	s.OSInfo, s.Interfaces, s.Addresses, s.LoggedInUser, s.ConsoleClient = nil, nil, nil, "", ""
	s.RestartAwaitingChanges, s.RestartAwaitingArguments = nil, nil
	s.Runner.Message = ""
	if s.Runner.Outcome != nil {
		s.Runner.Outcome = &status.Outcome{
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

// bodyJSON returns the encoded report.
func (r report) bodyJSON() ([]byte, error) { return json.Marshal(r) }

// attachedDrives returns the drives that were attached while the guest is running, or are about to be. Their serial
// numbers differ and contain only printable characters.
func attachedDrives(known []status.Drive) (all []status.Drive) {
	for _, d := range known[:min(len(known), mostPending)] {
		all = append(all, status.Drive{
			Name: d.Name, State: d.State, Message: cleanMessage(d.Message, longestText), Capacity: d.Capacity,
		})
	}
	return all
}

func outcomeOfEnd(s status.Status) *status.Outcome {
	if s.Outcome == nil {
		return nil
	}
	o := s.Outcome
	return &status.Outcome{
		Cause: o.Cause, Reason: cleanText(o.Reason, longestValue), ExitCode: o.ExitCode,
		Message: cleanMessage(o.Message, longestText),
	}
}

// consoleClient returns the host of the screen's longest-connected viewer.
func consoleClient(s status.Status) string {
	for _, c := range s.Consoles {
		if c.Kind == status.Serial {
			continue
		}
		if host, _, err := net.SplitHostPort(c.Client); err == nil {
			return cleanText(host, longestValue)
		}
		return cleanText(c.Client, longestValue)
	}
	return ""
}

// osInfo returns the guest's description of its system, with the agent's names.
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

// guestInterfaces returns the guest's interfaces. It drops the prefix lengths, because they don't help to reach the
// guest.
func guestInterfaces(said []status.Interface) []guestInterface {
	var all []guestInterface
	for _, s := range said[:min(len(said), mostInterfaces)] {
		i := guestInterface{Name: cleanText(s.Name, longestValue), MAC: cleanText(s.MAC, longestValue)}
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

// fromPod is the resource's name for the host, which is the pod there.
const fromPod status.Reach = "Pod"

// guestAddresses returns where the guest can be reached.
func guestAddresses(known []status.Address) []status.Address {
	var all []status.Address
	for _, k := range known {
		a := status.Address{
			Address: k.Address, Interface: cleanText(k.Interface, longestValue), MAC: k.MAC, From: k.From,
			Source: k.Source,
		}
		if a.From == status.FromHost {
			a.From = fromPod
		}
		for _, p := range k.Ports[:min(len(k.Ports), mostPorts)] {
			a.Ports = append(a.Ports, status.AddressPort{
				Protocol: strings.ToUpper(p.Protocol), Port: p.Port, Guest: p.Guest,
			})
		}
		all = append(all, a)
	}
	return all
}

// transitions are the conditions that were reported last, with their status and transition time.
type transitions map[vmstatus.ConditionType]status.Condition

// rememberTimes takes over the conditions in the resource, so that a runner that adopts a VM or was restarted keeps
// the times of unchanged conditions.
func (t transitions) rememberTimes(conditions []status.Condition) {
	for _, c := range conditions {
		t[c.Type] = c
	}
}

// timeOf returns since when a condition has its status, in whole seconds, like the resource. The initial conditions
// in the resource's definition have no time.
func (t transitions) timeOf(c status.Condition) time.Time {
	if before, ok := t[c.Type]; ok && before.Status == c.Status && before.LastTransitionTime.Unix() > 0 {
		return before.LastTransitionTime
	}
	return c.LastTransitionTime.UTC().Truncate(time.Second)
}
