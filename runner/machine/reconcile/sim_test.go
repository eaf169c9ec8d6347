package reconcile_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"vmop/qmp"
	"vmop/runner/machine/reconcile"
	"vmop/vmtypes/plan"
)

// simRules are the rules of the machine simulated by sim.
var simRules = plan.Rules{
	plan.CPUs{Boot: 1, Maximum: 4, ID: "cpu-%d"},
	plan.Balloon{Device: "balloon0", Maximum: 256 * mib},
	plan.Medium{Drive: 1, Device: "cd0"},
	plan.Medium{Drive: 2, Device: "cd1"},
	plan.Disk{Drive: 0, Device: "disk0"},
	plan.Password{Protocol: "spice"},
	plan.Password{Protocol: "vnc", Display: "vnc0"},
}

// sim simulates a QEMU with a guest, as far as the rules need it. While it is moody, QEMU and the guest refuse, forget,
// lie and babble.
type sim struct {
	rng      *rand.Rand
	moody    bool
	running  bool
	cpus     [4]string // paths by slot
	made     [4]int    // times of plugging
	plugged  int
	target   int64
	actual   int64
	drives   map[string]*simDrive
	size     int64
	shrunk   bool // data loss
	password map[string]string
	expiry   map[string]string
	resets   int

	after []later // future changes
	lost  bool    // an event was lost
	out   []qmp.Event
}

type simDrive struct {
	file         string
	open, locked bool
}

// later is a delayed action of the guest.
type later struct {
	in time.Duration
	do func()
}

func newSim(rng *rand.Rand) *sim {
	return &sim{
		rng: rng, moody: true, target: 256 * mib, actual: 256 * mib, size: 1000,
		cpus: [4]string{0: "/machine/unattached/device[0]"}, password: map[string]string{}, expiry: map[string]string{},
		drives: map[string]*simDrive{"cd0": {file: "/a.iso"}, "cd1": {}},
	}
}

func (s *sim) chance(percent int) bool { return s.moody && s.rng.IntN(100) < percent }

// emit sends or loses an event.
func (s *sim) emit(name, data string) {
	if s.chance(20) {
		s.lost = true
		return
	}
	s.out = append(s.out, qmp.Event{Name: name, Data: json.RawMessage(data)})
}

func (s *sim) guest(do func()) {
	s.after = append(s.after, later{time.Duration(s.rng.IntN(3000)) * time.Millisecond, do})
}

// passes advances the time and runs the guest's due actions.
func (s *sim) passes(d time.Duration) {
	due := s.after
	s.after = nil
	for _, l := range due {
		if l.in -= d; l.in > 0 || !s.running {
			s.after = append(s.after, l)
			continue
		}
		if !s.chance(30) { // the guest forgets
			l.do()
		}
	}
}

func (s *sim) move(id string, open bool) {
	d := s.drives[id]
	if d.open != open {
		d.open = open
		s.emit("DEVICE_TRAY_MOVED", fmt.Sprintf(`{"device": "", "id": %q, "tray-open": %t}`, id, open))
	}
}

// babble sends unsolicited events.
func (s *sim) babble() {
	id := []string{"cd0", "cd1"}[s.rng.IntN(2)]
	switch s.rng.IntN(9) {
	case 0:
		s.move(id, s.rng.IntN(2) == 0)
	case 1:
		s.drives[id].locked = s.rng.IntN(2) == 0 && !s.drives[id].open
	case 2:
		s.emit("ACPI_DEVICE_OST",
			fmt.Sprintf(`{"info": {"device": "cpu-1", "slot": "1", "slot-type": "CPU", "source": 3, "status": %d}}`, s.rng.IntN(256)))
	case 3:
		s.emit("DEVICE_DELETED", `{"path": "/machine/peripheral/x"}`)
	case 4:
		s.emit([]string{"BALLOON_CHANGE", "DEVICE_TRAY_MOVED", "ACPI_DEVICE_OST", "NEW_EVENT"}[s.rng.IntN(4)],
			[]string{`{`, `{"actual": -1}`, `{"info": 3}`, `null`, ``}[s.rng.IntN(5)])
	case 5:
		s.pause(s.rng.IntN(3) == 0)
	case 6:
		s.emit("RESET", `{"guest": true, "reason": "guest-reset"}`)
	case 7:
		s.actual = (128 + s.rng.Int64N(128)) * mib
		s.emit("BALLOON_CHANGE", fmt.Sprintf(`{"actual": %d}`, s.actual))
	}
}

func (s *sim) pause(stop bool) {
	if s.running != stop {
		return
	}
	s.running = !stop
	s.emit(map[bool]string{true: "STOP", false: "RESUME"}[stop], "")
}

// run executes a command.
func (s *sim) run(c qmp.Command) (json.RawMessage, error) {
	if s.chance(10) {
		return nil, refusal("it is Monday")
	}
	args, _ := c.Arguments.(map[string]any)
	value, err := s.execute(c.Execute, args)
	if s.chance(10) {
		return nil, errors.New("no reply within a second")
	}
	if err != nil {
		return nil, err
	}
	if s.chance(3) {
		return json.RawMessage([]string{"", "null", "[]", "7", `[{"qdev": 3}]`}[s.rng.IntN(5)]), nil
	}
	b, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return b, nil
}

func refusal(format string, args ...any) error {
	return &qmp.Error{Class: qmp.GenericError, Desc: fmt.Sprintf(format, args...)}
}

func (s *sim) execute(name string, args map[string]any) (any, error) {
	id, _ := args["id"].(string)
	switch name {
	case "query-status":
		return map[string]bool{"running": s.running}, nil
	case "query-kvm":
		return json.RawMessage(kvm), nil
	case "query-hotpluggable-cpus":
		return s.slots(), nil
	case "query-balloon":
		return map[string]int64{"actual": s.actual}, nil
	case "query-block":
		return s.blocks(), nil
	case "device_add":
		return s.plug(id, args)
	case "device_del":
		return s.unplug(id)
	case "balloon":
		s.inflate(args["value"].(int64))
	case "blockdev-change-medium":
		return s.change(id, args["filename"].(string))
	case "blockdev-open-tray":
		s.openTray(id)
	case "blockdev-remove-medium":
		if !s.drives[id].open {
			return nil, refusal("Tray of device '%s' is not open", id)
		}
		s.drives[id].file = ""
	case "blockdev-close-tray":
		s.move(id, false)
	case "block_resize":
		s.shrunk = s.shrunk || args["size"].(int64) < s.size
		s.size = args["size"].(int64)
	case "set_password":
		s.password[args["protocol"].(string)] = args["password"].(string)
	case "expire_password":
		s.expiry[args["protocol"].(string)] = args["time"].(string)
	case "system_reset":
		s.resets++
		s.emit("RESET", `{"guest": false, "reason": "host-qmp-system-reset"}`)
	default:
		return nil, refusal("The command %s has not been found", name)
	}
	return struct{}{}, nil
}

func (s *sim) slots() any {
	var list []map[string]any
	for i := len(s.cpus) - 1; i >= 0; i-- {
		slot := map[string]any{"type": "t", "props": map[string]int{"core-id": i}}
		if s.cpus[i] != "" {
			slot["qom-path"] = s.cpus[i]
		}
		list = append(list, slot)
	}
	return list
}

func (s *sim) blocks() any {
	list := []map[string]any{{"qdev": "/machine/peripheral/disk0/virtio-backend", "inserted": map[string]any{
		"node-name": "disk0-format", "image": map[string]int64{"virtual-size": s.size},
	}}}
	for id, d := range s.drives {
		entry := map[string]any{"qdev": id, "locked": d.locked, "tray_open": d.open}
		if d.file != "" {
			entry["inserted"] = map[string]string{"file": d.file, "node-name": "#block1"}
		}
		list = append(list, entry)
	}
	return list
}

func (s *sim) plug(id string, args map[string]any) (any, error) {
	core := int(args["core-id"].(float64))
	if s.cpus[core] != "" || slices.Contains(s.cpus[:], "/machine/peripheral/"+id) {
		return nil, refusal("CPU[%d] exists", core)
	}
	s.cpus[core] = "/machine/peripheral/" + id
	s.plugged++
	s.made[core] = s.plugged
	return struct{}{}, nil
}

func (s *sim) unplug(id string) (any, error) {
	i := slices.Index(s.cpus[:], "/machine/peripheral/"+id)
	if i < 0 {
		return nil, refusal("Device '%s' not found", id)
	}
	made := s.made[i]
	s.guest(func() {
		if s.cpus[i] != "" && s.made[i] == made { // it may be another CPU by now
			s.cpus[i] = ""
			s.emit("DEVICE_DELETED", fmt.Sprintf(`{"path": "/machine/peripheral/%s/lapic"}`, id))
		}
	})
	return struct{}{}, nil
}

// behaves ends all unreliable behavior. A guest's balloon driver follows the device's value, not earlier commands.
func (s *sim) behaves() {
	s.moody = false
	s.pause(false)
	s.inflate(s.target)
}

func (s *sim) inflate(target int64) {
	s.target = target
	s.guest(func() {
		s.actual = s.target
		s.emit("BALLOON_CHANGE", fmt.Sprintf(`{"actual": %d}`, s.actual))
	})
}

// openTray opens an unlocked tray, or asks the guest to open a locked tray.
func (s *sim) openTray(id string) bool {
	d := s.drives[id]
	if !d.open && d.locked {
		s.guest(func() { d.locked = false; s.move(id, true) })
		return false
	}
	s.move(id, true)
	return true
}

func (s *sim) change(id, file string) (any, error) {
	if s.chance(20) {
		return nil, refusal("Could not open '%s': No such file or directory", file)
	}
	if !s.openTray(id) {
		return nil, refusal("Device '%s' is locked and force was not specified, wait for tray to open and try again", id)
	}
	s.drives[id].file = strings.TrimPrefix(file, "file:")
	s.move(id, false)
	return struct{}{}, nil
}

// desires returns a random achievable wish with the reset counter.
func desires(rng *rand.Rand, resets int64) reconcile.Desired {
	files := []string{"", "/a.iso", "/b.iso", "http://h/c.iso"}
	return reconcile.Desired{
		CPUs: 1 + rng.IntN(4), RAM: (64 + 64*rng.Int64N(4)) * mib,
		Media:        map[int]string{1: files[rng.IntN(4)], 2: files[rng.IntN(4)]},
		Sizes:        map[int]int64{0: 1000 * (1 + rng.Int64N(9))},
		Password:     secret([]string{"s", "t"}[rng.IntN(2)], []string{"", "now", "+60"}[rng.IntN(3)]),
		ResetCounter: &resets,
	}
}

// fulfills returns the unfulfilled parts of a wish.
func (s *sim) fulfills(want reconcile.Desired) []string {
	var missing []string
	check := func(ok bool, what string, args ...any) {
		if !ok {
			missing = append(missing, fmt.Sprintf(what, args...))
		}
	}
	there := len(s.cpus) - len(slices.DeleteFunc(slices.Clone(s.cpus[:]), func(id string) bool { return id != "" }))
	check(there == want.CPUs, "%d CPUs, not %d", there, want.CPUs)
	check(s.actual == want.RAM, "RAM %d, not %d", s.actual, want.RAM)
	check(s.drives["cd0"].file == want.Media[1], "cd0 has %q, not %q", s.drives["cd0"].file, want.Media[1])
	check(s.drives["cd1"].file == want.Media[2], "cd1 has %q, not %q", s.drives["cd1"].file, want.Media[2])
	check(!s.shrunk, "the disk became smaller")
	check(s.size >= want.Sizes[0], "disk of %d, not %d", s.size, want.Sizes[0])
	text, expiry := want.Password.Text.Reveal(), want.Password.Expiry
	for _, protocol := range []string{"spice", "vnc"} {
		check(s.password[protocol] == text, "password of %s", protocol)
		if expiry != "" || s.expiry[protocol] != "" {
			check(s.expiry[protocol] == expiry || expiry == "" && s.expiry[protocol] == "never",
				"expiry %q of %s, not %q", s.expiry[protocol], protocol, expiry)
		}
	}
	return missing
}

// sameMedia compares the media in the facts with the drives.
func (s *sim) sameMedia(f reconcile.Facts) bool {
	return maps.Equal(map[int]string{1: s.drives["cd0"].file, 2: s.drives["cd1"].file},
		map[int]string{1: f.Media[1].File, 2: f.Media[2].File})
}
