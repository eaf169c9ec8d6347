package adopt

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"vmop/internal/yamlfile"
	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// A Field is a value of the configuration that the proposal sets.
type Field struct {
	// Path is the field, such as "vm.maximumRam".
	Path string
	// Value is the new value as YAML.
	Value string
	// Line is the line of the command line that needs it; 0 if several do.
	Line int
}

// A candidate is a set of fields that may bring the plan closer to the command line.
type candidate struct {
	fields []Field
	// covers are the indexes of the options that belong to the VM alone, so that no difference remains.
	covers []int
	// always keeps the fields if the plan changes, even if the differences stay the same.
	always bool
	// about is the index of the device that needs the fields; -1 if it is not about a device.
	about int
}

// fieldsOfWish returns candidates for everything that doesn't depend on the plan.
func (w *wish) fieldsOfWish() []candidate {
	list := []candidate{}
	add := func(covers []int, fields ...Field) {
		if len(fields) > 0 {
			list = append(list, candidate{fields: fields, covers: covers, about: -1})
		}
	}
	for i := range w.wants {
		one := &w.wants[i]
		if single := w.fieldOf(one); len(single) > 0 {
			add([]int{i}, single...)
		}
	}
	if kernel := w.kernelField(); kernel != nil {
		list = append(list, *kernel)
	}
	list = append(list, w.firmwareFields()...)
	list = append(list, w.displayFields()...)
	if at := slices.IndexFunc(w.wants, func(o Want) bool { return o.Flag == "-tpmdev" }); at >= 0 {
		add(nil, Field{Path: "vm.useTpm", Value: "true", Line: w.wants[at].Line})
	}
	return list
}

// fieldOf returns the fields for one option.
func (w *wish) fieldOf(one *Want) []Field {
	set := func(path, value string) Field { return Field{"vm." + path, value, one.Line} }
	text := func(key string) string {
		if one.Value != "" && key == "" {
			return one.Value
		}
		value, _ := one.Get(key)
		return value
	}
	switch one.Flag {
	case "-name":
		if name := cmp.Or(one.Value, text("guest")); name != "" {
			return []Field{set("name", quoteYAML(name))}
		}
	case "-uuid":
		return []Field{set("uuid", quoteYAML(one.Value))}
	case "-accel":
		if one.Value == "kvm" || one.Value == "tcg" {
			return []Field{set("accelerator", one.Value)}
		}
	case "-cpu":
		return []Field{set("cpuModel", quoteYAML(one.Value))}
	case "-machine":
		if strings.ContainsAny(one.Value, "0123456789") && strings.Contains(one.Value, "-") {
			return []Field{set("machineType", quoteYAML(one.Value))}
		}
	case "-boot":
		if menu, _ := one.Get("menu"); menu == "on" {
			return []Field{set("bootMenu", "true")}
		}
	case "-rtc":
		var list []Field
		for key, field := range map[string]string{"base": "rtcBase", "clock": "rtcClock"} {
			if value := text(key); value != "" {
				list = append(list, set(field, quoteYAML(value)))
			}
		}
		slices.SortFunc(list, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
		return list
	case "-m":
		if mib, ok := memoryOf(cmp.Or(one.Value, text("size"))); ok {
			return []Field{set("maximumRam", memoryText(mib)), set("currentRam", memoryText(mib))}
		}
	case "-smp":
		return cpuFields(one)
	}
	return nil
}

// memoryOf returns the MiB of the value of -m. A number without a unit means MiB; libvirt appends the unit k.
func memoryOf(text string) (mib uint64, ok bool) {
	if n, err := strconv.ParseUint(text, 10, 32); err == nil {
		return n, n > 0
	}
	n, ok := qemuopt.Bytes(text)
	return n >> 20, ok && n >= 1<<20
}

func memoryText(mib uint64) string {
	if mib%1024 == 0 {
		return fmt.Sprintf("%d GiB", mib/1024)
	}
	return fmt.Sprintf("%d MiB", mib)
}

// cpuFields returns the number of CPUs and their topology.
func cpuFields(one *Want) []Field {
	number := func(key string) int {
		text, _ := one.Get(key)
		n, _ := strconv.Atoi(text)
		return max(n, 0)
	}
	current, _ := strconv.Atoi(one.Value)
	current = max(current, number("cpus"))
	sockets, dies, cores, threads := number("sockets"), number("dies"), number("cores"), number("threads")
	topology := max(sockets, 1) * max(dies, 1) * max(cores, 1) * max(threads, 1)
	maximum := max(number("maxcpus"), current, topology)
	if current == 0 {
		current = maximum
	}
	list := []Field{
		{"vm.maximumCpus", strconv.Itoa(maximum), one.Line}, {"vm.currentCpus", strconv.Itoa(current), one.Line},
	}
	if topology == maximum {
		for _, level := range []struct {
			field string
			n     int
		}{{"sockets", sockets}, {"diesPerSocket", dies}, {"coresPerDie", cores}, {"threadsPerCore", threads}} {
			if level.n > 0 {
				list = append(list, Field{"vm." + level.field, strconv.Itoa(level.n), one.Line})
			}
		}
	}
	return list
}

// kernelField returns the kernel that QEMU loads itself.
func (w *wish) kernelField() *candidate {
	c := candidate{about: -1}
	words := []string{}
	for i := range w.wants {
		key := map[string]string{"-kernel": "image", "-initrd": "initrd", "-append": "commandLine"}[w.wants[i].Flag]
		if key == "" {
			continue
		}
		value := w.wants[i].Value
		if key != "commandLine" && !w.exact {
			value = placedFile(value)
		}
		words = append(words, key+": "+quoteYAML(value))
		c.covers = append(c.covers, i)
	}
	if len(words) == 0 || !strings.HasPrefix(strings.Join(words, ""), "image") {
		return nil
	}
	c.fields = []Field{{"vm.kernel", "{" + strings.Join(words, ", ") + "}", w.wants[c.covers[0]].Line}}
	return &c
}

// firmwareFields returns the kinds of firmware that the files of a command line may mean. Without files, QEMU uses its
// BIOS.
func (w *wish) firmwareFields() []candidate {
	if w.exact {
		return nil
	}
	covers := []int{}
	names := strings.ToLower(strings.Join(w.firmware, " "))
	for i := range w.wants {
		one := &w.wants[i]
		kind, _ := one.Get("if")
		if one.Flag == "-bios" || one.Flag == "-pflash" || kind == "pflash" {
			covers = append(covers, i)
		}
		if one.Flag != "-machine" {
			continue
		}
		for _, key := range []string{"pflash0", "pflash1"} {
			id, _ := one.Get(key)
			for at := w.maker(qemuopt.BlockNode, id); at >= 0; {
				covers = append(covers, at)
				file, _ := w.wants[at].Get("filename")
				names += " " + strings.ToLower(file)
				next, _ := w.wants[at].Get("file")
				if at = w.maker(qemuopt.BlockNode, next); slices.Contains(covers, at) {
					break
				}
			}
		}
	}
	kind := "bios"
	switch {
	case strings.Contains(names, "sec"):
		kind = "secure"
	case names != "":
		kind = "uefi"
	}
	if strings.Contains(names, "4m") {
		kind += "-4m"
	}
	return []candidate{{fields: []Field{{Path: "vm.firmware", Value: kind}}, covers: covers, about: -1, always: true}}
}

// displayFields returns the screen. A machine with a video card needs a server that shows its screen.
func (w *wish) displayFields() []candidate {
	servers, line, covers := []string{}, 0, []int{}
	for i := range w.wants {
		one := &w.wants[i]
		switch one.Flag {
		case "-spice":
			port, _ := one.Get("port")
			text := "{}"
			if port != "" && port != "0" {
				text = "{port: " + port + "}"
			}
			servers, line, covers = append(servers, "spice: "+text), one.Line, append(covers, i)
		case "-vnc":
			if id, _ := one.Get("id"); id == "screen" || w.exact {
				continue
			}
			host, display, _ := strings.Cut(cmp.Or(one.Value, valueOf(one, "vnc")), ":")
			n, err := strconv.Atoi(display)
			text := "{}"
			if err == nil && host != "unix" {
				text = fmt.Sprintf("{port: %d}", 5900+n)
			}
			servers, line, covers = append(servers, "vnc: "+text), one.Line, append(covers, i)
		case "-device":
			if qemuopt.FindDevice(one.Value).Noun == "a video card" {
				line = one.Line
			}
		}
	}
	if line == 0 || w.exact && len(servers) == 0 {
		return nil
	}
	if len(servers) == 0 {
		servers = append(servers, "vnc: {}")
	}
	return []candidate{{
		fields: []Field{{"vm.display", "{" + strings.Join(servers, ", ") + "}", line}}, covers: covers, about: -1,
	}}
}

func valueOf(one *Want, key string) string {
	value, _ := one.Get(key)
	return value
}

// fileField returns the field of a drive's file, if a property of a block node is the file of a drive in the
// configuration.
func fileField(p *plan.Plan, node, key, value string, line int) []candidate {
	if key != "filename" && key != "file.filename" {
		return nil
	}
	d, found := p.Drive(node)
	if !found || d.Index == plan.NotInConfiguration {
		return nil
	}
	return []candidate{{
		fields: []Field{{fmt.Sprintf("vm.drives[%d].file", d.Index), quoteYAML(value), line}},
		about:  -1,
	}}
}

// quoteYAML returns a text as a scalar of YAML that is safe within { }.
func quoteYAML(text string) string {
	const plain = lettersOfNames + "-./"
	if _, err := strconv.ParseFloat(text, 64); err != nil && text != "" && strings.Trim(text, plain) == "" &&
		!strings.HasPrefix(text, "-") && !slices.Contains([]string{
		"true", "false", "yes", "no", "on", "off", "null", "y", "n",
	}, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

// setField returns a vm section with another value of a field.
func setField(section string, f Field) (string, error) {
	path := strings.TrimPrefix(f.Path, "vm.")
	if key, isItem := strings.CutSuffix(path, "[]"); isItem {
		return appendItem(section, key, f.Value)
	}
	steps := strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(path), ".")
	text, err := yamlfile.Edit([]byte(section), f.Value, steps...)
	return string(text), err
}

// appendItem adds an item to a list of a vm section.
func appendItem(section, key, item string) (string, error) {
	list, given, err := yamlfile.Value([]byte(section), key)
	if err != nil {
		return "", err
	}
	list = strings.TrimRight(list, "\n")
	switch {
	case !given && key == "network": // the default is one card
		list = "- {}\n- " + item
	case !given || list == "[]":
		list = "- " + item
	case strings.HasPrefix(list, "[") && strings.HasSuffix(list, "]"):
		list = strings.TrimSuffix(list, "]") + ", " + item + "]"
	default:
		list += "\n- " + item
	}
	text, err := yamlfile.Edit([]byte(section), list, key)
	return string(text), err
}
