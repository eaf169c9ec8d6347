package web

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"vmop/manager/web/fleet"
)

// defined contains the stage's data about definitions.
type defined struct {
	offer fleet.Offer
	// faulty are the errors of definitions that contain a text.
	faulty map[string]fleet.Faults
	// check is the result for definitions without errors.
	check fleet.Check
	// version of all definitions, and the text that was saved last.
	version, saved string
	left           []string
	mandatory      bool // an option of type standard is mandatory
}

// newDefined returns an example with all fields.
func newDefined() defined {
	return defined{
		offer: fleet.Offer{
			Types: []string{"cloud", "standard"}, Type: "standard", Images: true,
			Networks: []string{"user", "tap", "none"},
			Known: []fleet.KnownImage{
				{Name: "debian/12", Host: "cloud.debian.org"}, {Name: "fedora/43", Host: "example.org", Size: 5 << 30},
			},
			User: "joe", Keys: []string{"ssh-ed25519 AAAA joe"},
		},
		faulty: map[string]fleet.Faults{}, version: "1", left: []string{"/data/web"},
		check: fleet.Check{
			Warnings: []string{"/images/<b>.img: there is no such file"},
			Plan: []fleet.Argument{
				{Text: "/usr/bin/qemu-system-x86_64"},
				{Depth: 1, Text: "-m 512M", Origins: []string{"@vmtypes//lib/memory.star:14 memory"}},
			},
			Running: true, Now: []fleet.Change{{
				Path: "vm.currentRam", Operation: "replace", CurrentValue: "1 GiB", DesiredValue: "<b>2 GiB</b>",
			}},
			Later: []fleet.Change{{Path: "vm.maximumCpus", Operation: "replace", CurrentValue: 2, DesiredValue: 4}},
		},
	}
}

// Offer, VMType, Draft and the following methods implement fleet.Definitions.
func (f *stage) Offer(context.Context) (*fleet.Offer, error) { return &f.offer, f.fails }

func (f *stage) VMType(_ context.Context, name string) (*fleet.VMType, error) {
	if !slices.Contains([]string{"standard", "cloud", "service", "windows"}, name) {
		return nil, fleet.Refusal("there is no VM type " + name)
	}
	one, many := int64(1), int64(8)
	least, most := int64(1<<20), int64(1<<30)
	t := &fleet.VMType{Name: name, Doc: "a <b>PC</b>"}
	if name == "service" {
		t.Options = []fleet.Option{
			{Name: "env", Kind: "string", Label: "Environment", Default: "dev", Values: []string{"dev", "prod"}},
			{Name: "ticket", Kind: "string", Group: "Operation", Example: "OPS-17", Rules: "like OPS-17"},
			{Name: "owner", Kind: "string", Deprecated: "use ticket"},
			{
				Name: "idle", Kind: "duration", Group: "Operation", DefaultRule: "an hour in production",
				Rules: "at most 1d",
			},
			{Name: "weight", Kind: "percent", Default: "50%"},
		}
	}
	if name == "windows" {
		t.CPUs, t.RAM, t.Disk, t.Drivers, t.Without = 4, 8<<30, 64<<30, "drivers", "bus: ide"
		t.Options = []fleet.Option{{Name: "drivers", Kind: "file"}, {Name: "bus", Kind: "string"}}
	}
	if name == "standard" {
		t.Options = []fleet.Option{
			{Name: "tpm", Kind: "bool", Default: "true", Doc: "A <b>TPM</b>."},
			{Name: "bus", Kind: "string", Default: "ide", Values: []string{"ide", "virtio"}},
			{Name: "owner", Kind: "string", Doc: "Its owner.", Mandatory: f.mandatory},
			{
				Name: "queues", Kind: "int", Minimum: &one, Maximum: &many,
				Doc: "The number of queues that each of the network cards gets, so that several CPUs of the guest can send " +
					"and receive packets at the same time.",
			},
			{Name: "cache", Kind: "size", Minimum: &least},
			{Name: "heap", Kind: "size", Maximum: &most},
			{Name: "tags", Kind: "list", Default: "[a]", Doc: "Words."},
		}
	}
	return t, f.fails
}

// Draft returns a definition that shows the draft to a test.
func (f *stage) Draft(_ context.Context, d *fleet.Draft) (string, error) {
	text := fmt.Sprintf("name: %s\ntype: %s\ncpus: %d\nram: %d\ndisks: %v\ncd: %v %q\nnetwork: %s\nscreen: %v\n",
		d.Name, d.Type, d.CPUs, d.RAM, drafted(d), d.CD, d.Medium, d.Network, d.Screen)
	if d.Image != "" {
		text += "image: " + d.Image + "\n"
	}
	if d.Fraction != "" {
		text += "share: " + d.Fraction + "\n"
	}
	if d.RunPolicy != "" {
		text += "policy: " + d.RunPolicy + "\n"
	}
	if d.Class != "" {
		text += "class: " + d.Class + "\n"
	}
	if d.User != "" {
		text += fmt.Sprintf("user: %s\nkeys: %q\n", d.User, d.Keys)
	}
	if d.Password {
		text += "passwd: " + fleet.NewPassword + "\n"
	}
	return text + fmt.Sprintf("options: %v\n", d.Options), f.fails
}

// drafted returns the disks of a draft.
func drafted(d *fleet.Draft) (disks []string) {
	for _, one := range d.Disks {
		text := fmt.Sprintf("{%d %s %s}", one.Size, one.Image, one.Class)
		if one.From != fleet.FromVM {
			text += fmt.Sprintf("{%s %s %s}", one.From, one.Of, one.Checksum)
		}
		disks = append(disks, text)
	}
	return disks
}

// offerSources offers an image and a disk as sources for new disks.
func (p *play) offerSources() {
	p.offer.Known = nil
	p.offer.Images, p.offer.Classes = false, &fleet.Classes{Names: []string{"fast"}, Default: "fast"}
	p.offer.Sources = &fleet.Sources{
		Images: []fleet.Volume{{Kind: fleet.VirtualImage, Name: "debian-12", Size: 3 << 30, State: "Ready"}},
		Disks:  []fleet.Volume{{Kind: fleet.VirtualDisk, Name: "data", Size: 10 << 30, State: "Ready"}},
	}
}

func (f *stage) Definition(context.Context, string) (*fleet.Definition, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	text := "\"/Runner\":\n  vm:\n    name: <b>\n  cloudInit:\n    userData: " + fleet.Kept + "\n"
	return &fleet.Definition{Text: text, Version: f.version}, f.fails
}

// faultsIn returns the errors of the definitions that contain a text.
func (f *stage) faultsIn(text string) error {
	for part, faults := range f.faulty {
		if strings.Contains(text, part) {
			return faults
		}
	}
	return f.fails
}

func (f *stage) Check(_ context.Context, name string, d *fleet.Definition) (*fleet.Check, error) {
	if _, err := f.Get(name); err == nil && d.Version == "" {
		return nil, fleet.ErrExists
	}
	switch err := f.faultsIn(d.Text).(type) {
	case nil:
		return &f.check, nil
	case fleet.Faults:
		return &fleet.Check{Faults: err}, nil
	default:
		return nil, err
	}
}

func (f *stage) Create(_ context.Context, user, name, text string, data fleet.Data) error {
	if _, err := f.Get(name); err == nil {
		return fleet.ErrExists
	}
	if err := f.faultsIn(text); err != nil {
		return err
	}
	if f.check.Leftover != "" && data == "" {
		return f.check.Leftover
	}
	f.save(text)
	f.Put(sample(name, fleet.Stopped))
	if data != "" {
		return f.record("%s create %s with data %s", user, name, string(data))
	}
	return f.record("%s create %s", user, name)
}

func (f *stage) Replace(_ context.Context, user, name string, d *fleet.Definition) error {
	if err := f.faultsIn(d.Text); err != nil {
		return err
	}
	f.mutex.Lock()
	version := f.version
	f.mutex.Unlock()
	if d.Version != version {
		return fleet.ErrChanged
	}
	f.save(d.Text)
	return f.record("%s replace %s", user, name)
}

func (f *stage) save(text string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.saved = text
}

func (f *stage) Left(context.Context, string) ([]string, error) { return f.left, f.fails }
