package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/runner/prepare/images"
	"vmop/vmspec"
)

// flagError converts the error of a draft. If a flag has set the wrong value, the error names the flag.
func flagError(err error, d *inventory.Draft) error {
	if small, ok := errors.AsType[inventory.SmallDisk](err); ok {
		return cli.UsageError{Err: fmt.Errorf("--%w", small)}
	}
	var faults yamlfile.Faults
	if !errors.As(err, &faults) {
		return err
	}
	for i := range faults {
		if flag, value := flagOf(faults[i].Path, d); flag != "" {
			text := strings.TrimPrefix(faults[i].Message, fmt.Sprintf("%q: ", value))
			faults[i] = yamlfile.Fault{File: flag + " " + cli.Printable(value), Message: text, Hint: faults[i].Hint}
		}
	}
	return faults
}

// flagOf returns the flag that has set a value of the configuration, and the flag's value; "" if no single flag
// has set it.
func flagOf(path string, d *inventory.Draft) (flag, value string) {
	if slices.ContainsFunc(d.Settings, func(s string) bool { return strings.HasPrefix(s, path) }) {
		return "", ""
	}
	switch path {
	case "vmType":
		return "--type", d.Type
	case "vm.currentCpus", "vm.maximumCpus":
		return "--cpus", fmt.Sprint(d.CPUs)
	case "vm.maximumRam":
		return "--ram", d.RAM
	case "vm.drives[0].size":
		if len(d.Disks) > 0 {
			return "--disk", d.Disks[0]
		}
	case "vm.network[0].type":
		return "--network", d.Network
	}
	return "", ""
}

// usualImage is a size, in bytes, that is sufficient for most operating system images. A smaller disk causes a
// warning while the image's size is unknown.
const usualImage = vmspec.GiB

// warnOfSize warns of a disk that may be too small for an image that has not been downloaded.
func (c *creation) warnOfSize(cmd *cobra.Command) error {
	d := &c.draft
	if d.Image == "" || len(d.Disks) == 0 {
		return nil
	}
	size, err := vmspec.ParseBytes(d.Disks[0])
	if err != nil || size >= usualImage {
		return nil //nolint:nilerr // the check of the configuration reports it
	}
	cache, err := images.NewCache(config.HostEnv())
	if err == nil && cache.SizeOf(images.Source{Text: d.Image}) == 0 {
		cmd.PrintErrf("warning: --disk %s: the size of the image %s is known only after it is fetched; the VM doesn't start "+
			"if the image is larger\n", d.Disks[0], images.Shown(d.Image))
	}
	return err
}
