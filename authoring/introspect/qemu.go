package introspect

import (
	"context"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
)

// A QEMU is a program with its cached answers. It is safe for concurrent use, and runs one query at a time. The caller
// must close it.
type QEMU struct {
	ctx     context.Context
	mu      sync.Mutex
	program string
	cache   string // file for known; may be empty
	known   knowledge
	asked   bool     // known has new entries
	session *session // nil if not running
}

// knowledge contains QEMU's answers.
type knowledge struct {
	// Version is the version: "7.2.22".
	Version string `json:"version"`
	// Flags are all options, with a dash.
	Flags []string `json:"flags"`
	// Values are the possible first values, by option.
	Values map[string][]string `json:"values"`
	// Aliases map other names of devices and machines to their names, by option.
	Aliases map[string]map[string]string `json:"aliases"`
	// Groups are the properties in groups of QemuOpts, by group.
	Groups map[string][]property `json:"groups"`
	// Variants are the properties from the QMP schema, by option and value.
	Variants map[string]map[string][]property `json:"variants"`
	// CPUs maps CPU models to their types.
	CPUs map[string]string `json:"cpus"`
	// Types are the properties of the queried devices and objects, by type. null means that the properties are unknown.
	Types map[string][]property `json:"types"`
	// Help are QEMU's descriptions of options and of their values: "-netdev", "-netdev user".
	Help map[string]string `json:"help"`
}

// Open queries the QEMU at a path, or reads its cache from the directory dir. dir may be empty. ctx also applies to
// later queries.
func Open(ctx context.Context, program, dir string) (*QEMU, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return nil, fmt.Errorf("look for QEMU: %w", err)
	}
	q := &QEMU{ctx: ctx, program: path, cache: cacheFile(dir, path)}
	if q.readCache() {
		return q, nil
	}
	if err := q.queryAll(); err != nil {
		return nil, fmt.Errorf("ask %s what it knows: %w", path, err)
	}
	return q, nil
}

// Close stops QEMU if it is running, and writes the cache. A failure to write the cache is not an error, because QEMU
// will be queried again.
func (q *QEMU) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked {
		q.writeCache()
		q.asked = false
	}
	if q.session == nil {
		return nil
	}
	err := q.session.endSession()
	q.session = nil
	return err
}

// Name returns the name with the version: "QEMU 7.2.22".
func (q *QEMU) Name() string { return "QEMU " + q.known.Version }

// Flags returns all options, with one dash.
func (q *QEMU) Flags() []string { return q.known.Flags }

// Values returns the possible first values of an option, sorted; nil if unknown.
func (q *QEMU) Values(flag string) []string { return q.known.Values[flag] }

// Properties returns the properties of an option with a value; nil if unknown.
func (q *QEMU) Properties(flag, value string) []string {
	var names []string
	for _, p := range q.propertiesOf(flag, value) {
		names = append(names, p.Name)
	}
	return names
}

// propertiesOf returns the properties of an option with a value; nil if unknown.
func (q *QEMU) propertiesOf(flag, value string) []property {
	q.mu.Lock()
	defer q.mu.Unlock()
	if real, ok := q.known.Aliases[flag][value]; ok {
		value = real
	}
	switch flag {
	case "-device":
		return appendUnlessNil(q.typeProperties("device-list-properties", value), named("id", "driver", "bus")...)
	case "-global":
		return q.typeProperties("device-list-properties", value)
	case "-object":
		return appendUnlessNil(q.typeProperties("qom-list-properties", value), named("id", "qom-type")...)
	case "-machine":
		return appendUnlessNil(q.typeProperties("qom-list-properties", value+"-machine"), q.known.Groups["machine"]...)
	case "-accel":
		return appendUnlessNil(q.typeProperties("qom-list-properties", value+"-accel"), named("accel")...)
	case "-cpu":
		return q.typeProperties("qom-list-properties", q.known.CPUs[value])
	}
	if variants := q.known.Variants[flag]; variants != nil {
		return variants[value]
	}
	if group := groups[flag]; group != "" && len(q.known.Groups[group]) > 0 {
		return appendUnlessNil(q.known.Groups[group], named("id")...)
	}
	return nil
}

// groups maps options to the groups of QemuOpts that parse them, for groups with complete information.
var groups = map[string]string{
	"-smp": "smp-opts", "-m": "memory", "-boot": "boot-opts", "-name": "name", "-rtc": "rtc", "-sandbox": "sandbox",
	"-action": "action",
	"-spice":  "spice", "-vnc": "vnc", "-chardev": "chardev", "-overcommit": "overcommit", "-msg": "msg",
	"-icount": "icount",
	"-add-fd": "add-fd", "-fsdev": "fsdev",
}

// typeProperties returns the properties of a type, and queries them if necessary.
func (q *QEMU) typeProperties(command, name string) []property {
	if name == "" {
		return nil
	}
	if list, ok := q.known.Types[name]; ok {
		return list
	}
	var answer []answeredProperty
	err := q.runQuery(command, map[string]any{"typename": name}, &answer)
	if q.ctx.Err() != nil {
		return nil // do not cache this
	}
	var list []property
	if err == nil { // on error, the type is unknown or QEMU crashed, as with devices that need a GPU
		for _, p := range answer {
			list = append(list, p.asProperty())
		}
		slices.SortFunc(list, func(a, b property) int { return strings.Compare(a.Name, b.Name) })
	}
	q.known.Types[name], q.asked = list, true
	return list
}

// runQuery runs a command in QEMU, and starts QEMU if it is not running.
func (q *QEMU) runQuery(command string, arguments map[string]any, into any) (err error) {
	if q.session == nil {
		if q.session, err = startSession(q.ctx, q.program); err != nil {
			return err
		}
	}
	err = q.session.runCommand(command, arguments, into)
	if q.session.ended {
		_ = q.session.endSession() // QEMU has crashed; err contains the reason
		q.session = nil
	}
	return err
}

// appendUnlessNil returns a copy of the list with additional elements. nil stays nil.
func appendUnlessNil(list []property, more ...property) []property {
	if list == nil {
		return nil
	}
	return append(slices.Clone(list), more...)
}

// queryAll queries everything except properties of types.
func (q *QEMU) queryAll() error {
	q.known = knowledge{
		Values: map[string][]string{}, Aliases: map[string]map[string]string{}, Groups: map[string][]property{},
		Variants: map[string]map[string][]property{}, CPUs: map[string]string{}, Types: map[string][]property{},
	}
	q.asked = true
	help, err := q.helpOutput("-help")
	if err != nil {
		return err
	}
	q.known.Flags, q.known.Help = parseFlags(help), parseHelp(help)
	if help, err = q.helpOutput("-device", "help"); err != nil {
		return err
	}
	q.known.Values["-device"], q.known.Aliases["-device"] = parseDevices(help)
	maps.Copy(q.known.Help, deviceHelp(help))
	if help, err = q.helpOutput("-machine", "help"); err != nil {
		return err
	}
	maps.Copy(q.known.Help, machineHelp(help))
	for _, step := range []func() error{q.queryTypes, q.queryMachines, q.queryCPUs, q.optionGroups, q.loadSchema} {
		if err := step(); err != nil {
			return err
		}
	}
	q.known.Version = q.session.version
	return nil
}

// helpOutput returns the output of QEMU for an informational option.
func (q *QEMU) helpOutput(args ...string) (string, error) {
	out, err := exec.CommandContext(q.ctx, q.program, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return string(out), nil
}

// queryTypes queries the types of objects, accelerators and devices.
func (q *QEMU) queryTypes() error {
	for flag, of := range map[string]string{"-object": "user-creatable", "-accel": "accel", "-global": "device"} {
		var answer []struct{ Name string }
		if err := q.runQuery("qom-list-types", map[string]any{"implements": of, "abstract": flag == "-global"},
			&answer); err != nil {
			return err
		}
		var list []string
		for _, t := range answer {
			list = append(list, strings.TrimSuffix(t.Name, "-accel"))
		}
		slices.Sort(list)
		q.known.Values[flag] = list
	}
	return nil
}

func (q *QEMU) queryMachines() error {
	var answer []struct{ Name, Alias string }
	if err := q.runQuery("query-machines", nil, &answer); err != nil {
		return err
	}
	aliases := map[string]string{}
	var list []string
	for _, m := range answer {
		list = append(list, m.Name)
		if m.Alias != "" {
			list = append(list, m.Alias)
			aliases[m.Alias] = m.Name
		}
	}
	slices.Sort(list)
	q.known.Values["-machine"], q.known.Aliases["-machine"] = list, aliases
	return nil
}

func (q *QEMU) queryCPUs() error {
	var answer []struct{ Name, Typename string }
	if err := q.runQuery("query-cpu-definitions", nil, &answer); err != nil {
		return err
	}
	for _, c := range answer {
		q.known.CPUs[c.Name] = c.Typename
	}
	q.known.Values["-cpu"] = slices.Sorted(maps.Keys(q.known.CPUs))
	return nil
}

func (q *QEMU) optionGroups() error {
	var answer []struct {
		Option     string
		Parameters []struct{ Name, Type, Help, Default string }
	}
	if err := q.runQuery("query-command-line-options", nil, &answer); err != nil {
		return err
	}
	for _, o := range answer {
		for _, p := range o.Parameters {
			q.known.Groups[o.Option] = append(q.known.Groups[o.Option], property{p.Name, p.Type, p.Help, p.Default})
		}
	}
	return nil
}
