package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"vmop/cloudinit"
	"vmop/internal/readfile"
	"vmop/internal/yamlfile"
	"vmop/manager/web/fleet"
	"vmop/manager/web/fleet/describe"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/vmspec"
)

// Offer implements fleet.Fleet.
func (f *Fleet) Offer(context.Context) (*fleet.Offer, error) {
	types, err := f.inventory.Types()
	if err != nil {
		return nil, err
	}
	networks := []vmspec.NetworkType{
		vmspec.NetworkUser, vmspec.NetworkPasst, vmspec.NetworkTap, vmspec.NetworkMasquerade, fleet.NoNetwork,
	}
	offer := &fleet.Offer{Types: types, Type: config.DefaultVMType, Images: true, Media: f.Media()}
	for _, n := range networks {
		offer.Networks = append(offer.Networks, string(n))
	}
	return offer, f.offerImages(offer)
}

// offerImages adds the images with names, and the user who logs in to their guests.
func (f *Fleet) offerImages(offer *fleet.Offer) (err error) {
	if offer.Known, err = f.listKnown(); err != nil {
		return err
	}
	place, err := f.inventory.Place(f.isSystem())
	if err != nil {
		return err
	}
	for _, file := range inventory.PublicKeyFiles(place.Env.HomeDir) {
		text, err := readfile.ReadFile(file, largestKey)
		if err != nil {
			continue // its owner may have protected it
		}
		keys, err := cloudinit.PublicKeys(string(text))
		if err == nil {
			offer.Keys = append(offer.Keys, keys...)
		}
	}
	if offer.Keys != nil {
		offer.User = f.user
	}
	offer.CDs = f.knownCDs(place.Env.HomeDir)
	return nil
}

// mostCDs limits the number of CDs that the form offers.
const mostCDs = 200

// knownCDs returns the ISO files in VMs, next to them, and where downloads usually are.
func (f *Fleet) knownCDs(home string) []string {
	files, folders := map[string]bool{}, map[string]bool{
		filepath.Join(home, "Downloads"): true, "/var/lib/libvirt/images": true,
	}
	for _, vm := range f.List() {
		for _, drive := range vm.Drives {
			if filepath.IsAbs(drive.Medium) {
				files[drive.Medium], folders[filepath.Dir(drive.Medium)] = true, true
			}
		}
	}
	for folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			continue // it may be absent or private
		}
		for _, e := range entries {
			if strings.EqualFold(filepath.Ext(e.Name()), ".iso") {
				files[filepath.Join(folder, e.Name())] = true
			}
		}
	}
	list := slices.Sorted(maps.Keys(files))
	return list[:min(len(list), mostCDs)]
}

// largestKey is the maximum size of a file with a public key in bytes.
const largestKey = 1 << 16

// VMType implements fleet.Fleet.
func (f *Fleet) VMType(ctx context.Context, name string) (*fleet.VMType, error) {
	about, err := f.inventory.DescribeType(ctx, name)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fleet.Refusal(err.Error())
	}
	sizes, err := f.inventory.SuggestSizes(ctx, name)
	if err != nil {
		return nil, err
	}
	t := describe.Type(about)
	t.CPUs, t.RAM, t.Disk = int64(sizes.CPUs), int64(sizes.RAM), int64(sizes.Disk)
	return t, nil
}

// Draft implements fleet.Fleet.
func (f *Fleet) Draft(ctx context.Context, d *fleet.Draft) (string, error) {
	draft := inventory.Draft{
		Name: d.Name, System: f.isSystem(), Type: d.Type, CPUs: int(d.CPUs), Network: d.Network, User: d.User,
		SSHKeys: d.Keys, CD: d.Medium, Image: d.Image,
	}
	if d.CD && d.Medium == "" {
		draft.CD = inventory.EmptyCD
	}
	if d.RAM != 0 {
		draft.RAM = vmspec.Bytes(d.RAM).String()
	}
	for _, disk := range d.Disks {
		switch {
		case disk.Image != "" && !filepath.IsAbs(disk.Image):
			return "", fleet.Faults{{
				Path: fmt.Sprintf("vm.drives[%d].file", len(draft.Disks)), Message: "must be an absolute path",
			}}
		case disk.Image != "":
			draft.Disks = append(draft.Disks, disk.Image)
		default:
			draft.Disks = append(draft.Disks, vmspec.Bytes(disk.Size).String())
		}
	}
	if d.Screen {
		draft.Display = "vnc"
	}
	if d.Password {
		draft.PasswordHash = fleet.NewPassword
	}
	for _, name := range slices.Sorted(maps.Keys(d.Options)) {
		draft.Settings = append(draft.Settings, "vm.options."+name+"="+d.Options[name])
	}
	if _, err := f.inventory.SuggestDrivers(ctx, &draft); err != nil {
		return "", asFaults(err)
	}
	text, err := f.inventory.Draft(draft)
	var small inventory.SmallDisk
	if errors.As(err, &small) {
		return "", fleet.Faults{{Path: "vm.drives[0].size", Message: small.Error()}}
	}
	return string(text), asFaults(err)
}

// isSystem reports whether new VMs are system VMs. They are if root creates them, as with vmrunner create.
func (f *Fleet) isSystem() bool {
	_, err := f.inventory.Place(true)
	return err == nil && os.Geteuid() == 0
}

// Definition implements fleet.Fleet. It omits the data for cloud-init, which may be secret.
func (f *Fleet) Definition(ctx context.Context, name string) (*fleet.Definition, error) {
	vm, err := f.inventory.Find(ctx, name)
	if err != nil {
		return nil, asRefusal(err)
	}
	if vm.Fault != nil {
		return nil, fleet.Refusal("where its secrets are is not known, because the file has errors:\n" + faultText(vm.Fault))
	}
	text, err := f.inventory.Text(ctx, name)
	if err != nil {
		return nil, asRefusal(err)
	}
	shown, err := redactSecrets(text)
	return &fleet.Definition{Text: shown, Version: versionOf(text)}, err
}

func versionOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Check implements fleet.Fleet.
func (f *Fleet) Check(ctx context.Context, name string, d *fleet.Definition) (*fleet.Check, error) {
	review, err := f.reviewDefinition(ctx, name, d)
	if err = asFaults(err); err != nil {
		var faults fleet.Faults
		if errors.As(err, &faults) {
			return &fleet.Check{Faults: faults}, nil
		}
		return nil, err
	}
	left := fleet.Leftover("")
	if l := review.Leftover; l != nil {
		left = describeLeftover(l)
	}
	return &fleet.Check{
		Leftover: left,
		Warnings: review.Warnings, Plan: describe.Plan(review.Plan), Running: review.Running,
		Now: review.Now, Later: review.Later,
	}, nil
}

func (f *Fleet) reviewDefinition(ctx context.Context, name string, d *fleet.Definition) (*inventory.Review, error) {
	if d.Version == "" {
		return f.inventory.ReviewNew(ctx, name, f.isSystem(), []byte(d.Text))
	}
	before, err := f.inventory.Text(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := restoreSecrets([]byte(d.Text), before)
	if err != nil {
		return nil, err
	}
	return f.inventory.Review(ctx, name, text)
}

// Create implements fleet.Fleet.
func (f *Fleet) Create(ctx context.Context, _, name, text string, data fleet.Data) error {
	if _, _, err := f.inventory.Create(ctx, name, f.isSystem(), []byte(text), inventory.Data(data)); err != nil {
		return asFaults(err)
	}
	vm, err := f.inventory.Find(ctx, name)
	if err == nil {
		f.Put(newView(vm))
	}
	return asRefusal(err)
}

// Replace implements fleet.Fleet.
func (f *Fleet) Replace(ctx context.Context, _, name string, d *fleet.Definition) error {
	before, err := f.inventory.Text(ctx, name)
	switch {
	case err != nil:
		return asRefusal(err)
	case versionOf(before) != d.Version:
		return fleet.ErrChanged
	}
	text, err := restoreSecrets([]byte(d.Text), before)
	if err != nil {
		return asFaults(err)
	}
	_, err = f.inventory.Edit(ctx, name, before, text)
	return asFaults(err)
}

// Left implements fleet.Fleet.
func (f *Fleet) Left(ctx context.Context, name string) ([]string, error) {
	paths, err := f.inventory.Left(ctx, name)
	return paths, asRefusal(err)
}

func describeLeftover(l *inventory.Leftover) fleet.Leftover {
	return fleet.Leftover(l.Dir + ": " + l.String())
}

// asFaults converts an error about a definition to fleet.Faults.
func asFaults(err error) error {
	var left inventory.LeftoverError
	switch found := describe.Faults(err); {
	case err == nil:
		return nil
	case found != nil:
		return found
	case errors.As(err, &left):
		return describeLeftover(left.Leftover)
	case errors.Is(err, inventory.ErrExists):
		return fleet.ErrExists
	case errors.Is(err, inventory.ErrChanged):
		return fleet.ErrChanged
	case errors.Is(err, inventory.ErrName):
		return fleet.Faults{{Path: "vm.name", Message: err.Error()}}
	}
	return asRefusal(err)
}

// secretKeys returns the paths in the cloud-init section of values that may be secret.
func secretKeys(section string) (paths [][]string) {
	for _, key := range []string{"userData", "metaData", "networkConfig", "vendorData"} {
		paths = append(paths, []string{section, "cloudInit", key})
	}
	return paths
}

// withCredentials matches web addresses with a user or password.
func withCredentials() *regexp.Regexp {
	return regexp.MustCompile(`(https?://)[^/?#\s"']*@([^\s"',}\]]*)`)
}

// hiddenUser replaces the user and password in an address.
const hiddenUser = "…"

// redactSecrets returns a configuration without possible secrets: cloud-init data, and passwords in addresses. It
// returns an error if the file isn't valid YAML, because it can't locate the secrets.
func redactSecrets(text []byte) (string, error) {
	section, err := inventory.SectionOf(text)
	if err != nil {
		return "", fleet.Refusal(fmt.Sprintf("the file can't be shown without its secrets: %v", err))
	}
	for _, path := range secretKeys(section) {
		has, err := yamlfile.Has(text, path...)
		if err == nil && has {
			text, err = yamlfile.Edit(text, fleet.Kept, path...)
		}
		if err != nil {
			return "", fleet.Refusal(fmt.Sprintf("the file can't be shown without its secrets: %v", err))
		}
	}
	return withCredentials().ReplaceAllString(string(text), "${1}"+hiddenUser+"@${2}"), nil
}

// restoreSecrets restores the secrets that redactSecrets removed, in the text that the user edited.
func restoreSecrets(edited, before []byte) ([]byte, error) {
	edited, lost := restoreAddresses(edited, before)
	if !bytes.Contains(edited, []byte(fleet.Kept)) {
		return edited, lost.orNil()
	}
	section, err := inventory.SectionOf(edited)
	if err != nil {
		return edited, nil // the check reports the problem
	}
	old, err := inventory.SectionOf(before)
	if err != nil {
		return nil, fmt.Errorf("read the file that was edited: %w", err)
	}
	from := secretKeys(old)
	for i, path := range secretKeys(section) {
		value, there, err := yamlfile.Value(edited, path...)
		if err != nil || !there || strings.TrimSpace(value) != fleet.Kept {
			continue
		}
		at := strings.Join(path[1:], ".")
		value, there, err = yamlfile.Value(before, from[i]...)
		switch {
		case err != nil:
			lost = append(lost, fleet.Fault{Path: at, Message: "it can't be kept; write it again: " + err.Error()})
		case !there:
			lost = append(lost, fleet.Fault{Path: at, Message: "there is no value to keep; leave the key out"})
		default:
			if edited, err = yamlfile.Edit(edited, value, path...); err != nil {
				return nil, err
			}
		}
	}
	for i, line := range strings.Split(string(edited), "\n") {
		if strings.Contains(line, fleet.Kept) && lost == nil {
			lost = append(lost, fleet.Fault{
				Line: i + 1, Message: fleet.Kept + " is in a place where no value can be kept",
			})
		}
	}
	return edited, lost.orNil()
}

// lostSecrets are errors for secrets that can't be restored.
type lostSecrets fleet.Faults

func (l lostSecrets) orNil() error {
	if l == nil {
		return nil
	}
	return fleet.Faults(l)
}

// restoreAddresses restores the users and passwords of addresses. The rest of an address must be unchanged, because a
// password belongs to one host.
func restoreAddresses(edited, before []byte) ([]byte, lostSecrets) {
	known := map[string]string{}
	for _, found := range withCredentials().FindAllStringSubmatch(string(before), -1) {
		shown := found[1] + hiddenUser + "@" + found[2]
		if have, twice := known[shown]; twice && have != found[0] {
			known[shown] = ""
			continue
		}
		known[shown] = found[0]
	}
	var lost lostSecrets
	text := withCredentials().ReplaceAllStringFunc(string(edited), func(address string) string {
		if !strings.Contains(address, "//"+hiddenUser+"@") {
			return address
		}
		if whole := known[address]; whole != "" {
			return whole
		}
		lost = append(lost, fleet.Fault{Message: "the password of " + address + " is not known; write it"})
		return address
	})
	return []byte(text), lost
}
