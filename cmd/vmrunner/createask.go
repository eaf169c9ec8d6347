package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"vmop/internal/cli"
	"vmop/runner/config"
	"vmop/runner/inventory"
	"vmop/vmtypes"
)

// askMissing asks the user for the values that no flag has set.
func (c *creation) askMissing(cmd *cobra.Command, all *inventory.Inventory) error {
	q, d := newQuestions(cmd), &c.draft
	var about vmtypes.Description
	isType := func(answer string) (err error) {
		about, err = all.DescribeType(cmd.Context(), answer)
		return err
	}
	var err error
	if !cmd.Flags().Changed("type") {
		d.Type, err = q.promptUntil("VM type", config.DefaultVMType, isType)
	} else {
		err = isType(d.Type)
	}
	if err != nil {
		return err
	}
	if err := c.askSizes(cmd, q, all); err != nil {
		return err
	}
	hasSystem := d.Image != "" || len(d.Disks) > 0 && filepath.IsAbs(d.Disks[0])
	if hasSystem && !cmd.Flags().Changed("user") {
		if d.User, err = q.promptUntil("User that cloud-init makes, for ssh", ownName(), nil); err != nil {
			return err
		}
	}
	if d.User != "" && c.keyFile == "" {
		if c.keyFile, err = q.promptUntil("Public key of the user", publicKey(), isKey); err != nil {
			return err
		}
	}
	return c.askOptions(q, about)
}

// askSizes asks for sizes, disks and CDs.
func (c *creation) askSizes(cmd *cobra.Command, q *questions, all *inventory.Inventory) error {
	d := &c.draft
	suggested := *d
	if err := all.Suggest(cmd.Context(), &suggested); err != nil {
		return err
	}
	isCount := func(answer string) error {
		if n, err := strconv.Atoi(answer); err != nil || n < 1 {
			return errors.New("must be a number, at least 1")
		}
		return nil
	}
	image, cpus, disk, size := "", "", "", inventory.NoDisk
	if len(suggested.Disks) > 0 {
		size = suggested.Disks[0]
	}
	if d.Type == config.DefaultVMType {
		image = usualImageName
	}
	var decided []string // by the type or a setting
	for flag, isDecided := range map[string]bool{
		"cpus": suggested.CPUs == 0, "ram": suggested.RAM == "", "disk": size == inventory.NoDisk,
	} {
		if isDecided {
			decided = append(decided, flag)
		}
	}
	for _, question := range []struct {
		flag, text, standard string
		check                func(string) error
		answer               *string
	}{
		{"cpus", "CPUs", strconv.Itoa(suggested.CPUs), isCount, &cpus},
		{"ram", "RAM", suggested.RAM, isSize, &d.RAM},
		{"image", "Image of the disk, such as " + usualImageName, image, c.isImage, &d.Image},
		{"disk", "Disk: size of a new disk, or path of an image", size, isDisk, &disk},
		{"cd", "CD: path or URL", "", isMedium, &d.CD},
	} {
		if cmd.Flags().Changed(question.flag) || slices.Contains(decided, question.flag) {
			continue
		}
		answer, err := q.promptUntil(question.text, question.standard, question.check)
		if err != nil {
			return err
		}
		*question.answer = answer
	}
	if cpus != "" {
		d.CPUs, _ = strconv.Atoi(cpus) // prompt has checked it
	}
	if size != inventory.NoDisk {
		d.Disks = []string{cmp.Or(disk, inventory.NoDisk)}
	}
	return nil
}

// usualImageName is the suggested image.
const usualImageName = "debian/12"

func isKey(file string) error {
	if file == "" {
		return nil
	}
	_, err := existingFile(file)
	return err
}

// askOptions asks for the mandatory options of the VM type and, if the user agrees, for its optional options. It
// skips optional lists, dicts and records.
func (c *creation) askOptions(q *questions, about vmtypes.Description) error {
	more := false
	if slices.ContainsFunc(about.Options, func(o vmtypes.Option) bool { return !o.Mandatory }) {
		var err error
		if more, err = q.askYesNo("Set options of the VM type "+about.Name+"?", false); err != nil {
			return err
		}
	}
	heading := ""
	for _, option := range vmtypes.ByGroup(about.Options) {
		if !option.Mandatory && (!more || formOf(option) != "" || option.Deprecated != "") {
			continue
		}
		if option.Group != heading {
			heading = option.Group
			q.show("\n", cli.Printable(heading), "\n")
		}
		if err := c.askOption(q, option); err != nil {
			return err
		}
	}
	return nil
}

// askOption asks for the value of one option.
func (c *creation) askOption(q *questions, option vmtypes.Option) error {
	if option.Doc != "" {
		q.show("# ", option.Doc, "\n")
	}
	standard, form := option.DefaultRule, formOf(option)
	if n, number := option.Default.(int64); number {
		standard = option.Number(n)
	} else if option.Default != nil {
		standard = fmt.Sprint(option.Default)
	}
	answer, err := q.promptUntil(firstNonEmpty(option.Label, option.Name), standard, func(answer string) error {
		switch {
		case answer == "" && option.Mandatory:
			return errors.New("the VM type needs it")
		case answer == "" || answer == standard:
			return nil
		case form != "" && (answer[0] != form[0] || answer[len(answer)-1] != form[len(form)-1]):
			return fmt.Errorf("must be a %s in YAML, such as %s", option.Type, form)
		case form != "":
			return nil
		}
		return option.CheckText(answer)
	})
	if err != nil || answer == standard {
		return err
	}
	if option.Type == "string" || option.Type == "file" {
		answer = strconv.Quote(answer)
	}
	c.draft.Settings = append(c.draft.Settings, "vm.options."+option.Name+"="+answer)
	return nil
}
