package web

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"vmop/manager/web/fleet"
)

// diskFields returns the fields of a disk in the form. Each row has every field, and their value lists have the same
// order.
func (n *newVM) diskFields() []string {
	fields := []string{"disk"}
	if n.offer.Classes != nil {
		fields = append(fields, "class")
	}
	if n.offer.Sources != nil {
		fields = append(fields, "from", "url", "checksum")
	}
	return fields
}

// inRow returns the value of a field in a row of disks.
func (n *newVM) inRow(field string, row int) string {
	if list := n.values[field]; row < len(list) && slices.Contains(n.diskFields(), field) {
		return strings.TrimSpace(list[row])
	}
	return ""
}

// countDiskRows returns the number of rows of disks.
func (n *newVM) countDiskRows() int {
	most := 0
	for _, field := range n.diskFields() {
		most = max(most, len(n.values[field]))
	}
	return most
}

// rowField returns the name of a field in a row.
func rowField(field string, row int) string { return field + "." + strconv.Itoa(row) }

func diskField(row int) string { return rowField(fleet.FieldDisk, row) }

// readDisks parses the disks. It ignores rows with an empty size and an empty source.
func (n *newVM) readDisks() {
	n.diskRows = nil
	className := regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	for row := range n.countDiskRows() {
		text, from := n.inRow("disk", row), n.inRow("from", row)
		if text == "" && from == "" {
			continue
		}
		disk := fleet.Disk{Class: n.inRow("class", row)}
		if disk.Class != "" && !className.MatchString(disk.Class) {
			n.faults.addFault(rowField("class", row), n.T("new.badclass"))
		}
		least := n.readSource(&disk, row)
		size, isSize := parseBytes(text)
		size = size >> 20 << 20
		switch {
		case disk.From == fleet.FromDisk:
		case text == "" && least > 0:
			disk.Size = least
		case isSize && size > 0 && size < least:
			n.faults.addFault(diskField(row), n.T("new.small", n.formatBytes(least)))
		case isSize && size > 0:
			disk.Size = size
		case n.offer.Images && strings.HasPrefix(text, "/") && n.draft.Image != "" && len(n.draft.Disks) == 0:
			n.faults.addFault(diskField(row), n.T("new.twoimages"))
		case n.offer.Images && strings.HasPrefix(text, "/"):
			disk.Image = text
		case n.offer.Images:
			n.faults.addFault(diskField(row), n.T("new.nodisk"))
		default:
			n.faults.addFault(diskField(row), n.T("new.nosize"))
		}
		n.draft.Disks = append(n.draft.Disks, disk)
		n.diskRows = append(n.diskRows, row)
	}
}

// readSource parses the source of a disk, and returns the minimum size of the disk in bytes.
func (n *newVM) readSource(disk *fleet.Disk, row int) (least int64) {
	kind, of, _ := strings.Cut(n.inRow("from", row), ":")
	disk.From, disk.Of = fleet.DiskFrom(kind), of
	among := func(list []fleet.Volume) fleet.Volume {
		if i := slices.IndexFunc(list, func(v fleet.Volume) bool { return v.Name == of }); i >= 0 {
			return list[i]
		}
		n.faults.addFault(rowField("from", row), n.T("new.nosource"))
		return fleet.Volume{}
	}
	switch disk.From {
	case fleet.FromVM, fleet.FromBlank:
	case fleet.FromImage:
		return among(n.offer.Sources.Images).Size
	case fleet.FromDisk:
		among(n.offer.Sources.Disks)
	case fleet.FromURL:
		disk.Of, disk.Checksum = n.inRow("url", row), n.inRow("checksum", row)
		if to, err := url.Parse(disk.Of); err != nil || to.Host == "" {
			n.faults.addFault(rowField("url", row), n.T("new.nourl"))
		}
	default:
		n.faults.addFault(rowField("from", row), n.T("new.nosource"))
	}
	return 0
}

// fieldOf returns the form field for a path in the definition.
func (n *newVM) fieldOf(path string) string {
	field := n.draft.Field(path)
	if n.draft.Image != "" && path == "vm.drives[0].source" {
		if n.values.Get(originField) == fromFile {
			return fromFile
		}
		return originField
	}
	number, is := strings.CutPrefix(field, fleet.FieldDisk+".")
	if i, err := strconv.Atoi(number); is && err == nil {
		fields := map[string]string{".url": "url", ".checksum": "checksum", ".storageClassName": "class"}
		for ending, name := range fields {
			if strings.HasSuffix(path, ending) && slices.Contains(n.diskFields(), name) {
				return rowField(name, n.diskRows[i])
			}
		}
		return diskField(n.diskRows[i])
	}
	return field
}

// diskGroup returns a row of fields for each disk, and at least one row.
func (n *newVM) diskGroup() groupView {
	g := n.inputGroup("disks")
	g.Part = true
	g.Button, g.ButtonDoes = n.T("new.moredisks"), "disk"
	g.Hint = n.T("new.disks.size")
	if n.offer.Images {
		g.Hint = n.T("new.disks.image")
	}
	if n.draft.Image != "" {
		g.Hint = n.T("new.disks.copy")
	}
	rows := n.countDiskRows()
	if n.moreDisks || rows == 0 {
		rows++
	}
	for row := range rows {
		var inputs []inputView
		if n.offer.Sources != nil {
			inputs = append(inputs, n.sourceInput(row), n.rowInput("url", row, "forurl"),
				n.rowInput("checksum", row, "forfile"))
		}
		if n.offer.Classes != nil {
			inputs = append(inputs, n.classInput(row))
		}
		size := n.rowInput("disk", row, "fornew")
		if n.offer.Sources != nil {
			size.Label = n.T("new.field.disksize", row+1)
		}
		g.Rows = append(g.Rows, append(inputs, size))
	}
	return g
}

// rowInput returns a text field in a row.
func (n *newVM) rowInput(field string, row int, class string) inputView {
	in := inputView{
		ID: "f-" + rowField(field, row), Name: field, Kind: textInput, Label: n.T("new.field."+field, row+1),
		Value: n.inRow(field, row), Faults: n.faults[rowField(field, row)], Autocomplete: "off", Class: class,
	}
	if text, is := n.suggestions[field]; is && row == 0 {
		in.Suggested = &text
	}
	return in
}

// sourceInput returns the choice of a disk's source.
func (n *newVM) sourceInput(row int) inputView {
	in := n.rowInput("from", row, "")
	in.Kind = choiceInput
	there := false
	add := func(value, text string) {
		in.Choices = append(in.Choices, choiceView{value, text, value == in.Value})
		there = there || value == in.Value
	}
	add("", n.T("new.from.vm"))
	add(string(fleet.FromBlank), n.T("new.from.blank"))
	for _, i := range n.offer.Sources.Images {
		add(string(fleet.FromImage)+":"+i.Name, n.T("new.from.image", i.Name, n.formatBytes(i.Size)))
	}
	add(string(fleet.FromURL), n.T("new.from.url"))
	for _, d := range n.offer.Sources.Disks {
		add(string(fleet.FromDisk)+":"+d.Name, n.T("new.from.disk", d.Name, n.formatBytes(d.Size)))
	}
	if !there {
		add(in.Value, in.Value)
	}
	return in
}

// classInput returns the field for a disk's storage class: a choice, or text if the classes are not known.
func (n *newVM) classInput(row int) inputView {
	in := n.rowInput("class", row, "fornew")
	in.Placeholder = n.T("new.default")
	classes := n.offer.Classes
	if classes.Names == nil {
		return in
	}
	in.Kind = choiceInput
	usual := n.T("new.noclass")
	if classes.Default != "" {
		usual = n.T("new.defaultis", classes.Default)
	}
	in.Choices = []choiceView{{"", usual, false}}
	if in.Value != "" && !slices.Contains(classes.Names, in.Value) {
		in.Choices = append(in.Choices, choiceView{in.Value, in.Value, true})
	}
	for _, name := range classes.Names {
		if name != classes.Default || name == in.Value {
			in.Choices = append(in.Choices, choiceView{name, name, name == in.Value})
		}
	}
	return in
}
