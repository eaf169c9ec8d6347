package convert

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"vmop/internal/yamlfile"
	"vmop/runner/config"
	"vmop/vmspec"
)

// An Effect is the result of converting a part of the input.
type Effect string

// The effects.
const (
	Kept    Effect = "kept"    // the part is converted; the message contains the new key
	Changes Effect = "changes" // the part is converted differently, or the VM type determines it
	Dropped Effect = "dropped" // the part is lost; the message contains the reason
	Blocks  Effect = "blocks"  // there is no configuration until the user has solved this problem
)

// A Finding describes the result for one part of the input.
type Finding struct {
	Effect Effect
	// Line is the line in the input, counted from 1.
	Line int
	// Path is the path of the part, for Options.Without.
	Path    string
	Message string
	// Hint is a suggestion; it may be "".
	Hint string
}

// A Format is a program's format of definitions.
type Format string

// The formats.
const (
	Libvirt  Format = "libvirt"  // the XML of a domain
	Quickemu Format = "quickemu" // a file NAME.conf
	Lima     Format = "lima"     // lima.yaml of an instance, or a template
	Incus    Format = "incus"    // the output of "incus config show --expanded"
)

// Formats returns all formats.
func Formats() []Format { return []Format{Libvirt, Quickemu, Lima, Incus} }

// Options control the conversion of a definition.
type Options struct {
	// Format is the format of the text; "" means that Convert detects it.
	Format Format
	// Without are the paths of parts to omit.
	Without []string
	// Bridges maps names of networks in the definition to bridges of the host.
	Bridges map[string]string
	// Base reads a template that a definition of Lima is based on, such as template:debian or a path relative to the
	// file from. It returns the text and the name of the template, or an error for people. nil means that templates
	// can't be read.
	Base func(locator, from string) (text []byte, name string, err error)
}

// A Result is the result of a conversion.
type Result struct {
	Format Format
	// Config is the text of a configuration file; nil if a part blocks.
	Config []byte
	// Findings are in the order of the input.
	Findings []Finding

	vm   vmspec.Spec // of Config
	stop string      // how to keep the other program from running the VM; "" for a template
}

// Count returns the number of findings with an effect.
func (r *Result) Count(effect Effect) (n int) {
	for _, f := range r.Findings {
		if f.Effect == effect {
			n++
		}
	}
	return n
}

// LargestInput is the maximum size of a definition, in bytes.
const LargestInput = 1 << 20

// Convert converts a definition. file is the name of its file; it must be an absolute path if the definition
// contains relative paths. The error means that the text as a whole is unusable.
func Convert(file string, text []byte, o Options) (*Result, error) {
	switch {
	case len(text) > LargestInput:
		return nil, fmt.Errorf("%s: the definition has more than 1 MiB", file)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s: the file is empty", file)
	case bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text):
		return nil, fmt.Errorf("%s: this is not text in UTF-8: give a definition, not a disk", file)
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if o.Format == "" {
		if o.Format = formatOf(text); o.Format == "" {
			return nil, fmt.Errorf("%s: cannot detect the format of the definition; give --from libvirt, quickemu, lima or incus", file)
		}
	}
	c := &conversion{file: file, options: o, result: &Result{Format: o.Format}}
	root, read, err := c.parseText(text)
	if err != nil {
		return nil, err
	}
	if err := c.leaveOut(root); err != nil {
		return nil, err
	}
	read(root)
	c.reportRest(root)
	c.finishConfig(root)
	slices.SortStableFunc(c.result.Findings, func(a, b Finding) int { return a.Line - b.Line })
	return c.result, nil
}

// formatOf returns the format of a text, or "" if it is unknown.
func formatOf(text []byte) Format {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return Libvirt
	}
	if isShell(string(text)) {
		return Quickemu
	}
	return yamlFormat(text)
}

// conversion is the state of a conversion.
type conversion struct {
	file    string
	options Options
	result  *Result
	config  config.Config
	bases   int // the number of templates read
}

// parseText returns the tree of a text, and the function that reads the tree.
func (c *conversion) parseText(text []byte) (root *node, read func(*node), err error) {
	switch c.options.Format {
	case Libvirt:
		root, err = parseXML(c.file, text)
		return root, func(n *node) { (&domain{conversion: c}).readDomain(n) }, err
	case Quickemu:
		root, err = parseShell(c.file, text)
		return root, func(n *node) { (&quickemu{conversion: c}).readQuickemu(n) }, err
	case Lima:
		if root, err = parseYAML(c.file, text); err == nil {
			c.addBases(root, c.file)
		}
		return root, func(n *node) { (&lima{conversion: c}).readLima(n) }, err
	case Incus:
		root, err = parseYAML(c.file, text)
		return root, func(n *node) { (&incus{conversion: c}).readIncus(n) }, err
	}
	return nil, nil, fmt.Errorf("%s: %q is not a supported format", c.file, c.options.Format)
}

func (c *conversion) addFinding(effect Effect, n *node, message, hint string) {
	n.markSeen()
	if n.origin != "" {
		message += " (from " + n.origin + ")"
	}
	c.result.Findings = append(c.result.Findings, Finding{effect, n.line, n.path, message, hint})
}

// keepPart reports that a part is converted to a key of the configuration.
func (c *conversion) keepPart(n *node, to string) {
	if n != nil {
		c.addFinding(Kept, n, to, "")
	}
}

func (c *conversion) changePart(n *node, message, hint string) {
	if n != nil {
		n.textSeen = true
		c.addFinding(Changes, n, message, hint)
	}
}

// dropPart reports that a part, with everything below it, has no effect here.
func (c *conversion) dropPart(n *node, why string) {
	if n != nil {
		n.seeAll()
		c.addFinding(Dropped, n, why, "")
	}
}

// blockPart reports that a part prevents the configuration.
func (c *conversion) blockPart(n *node, message, hint string) {
	if n == nil {
		return
	}
	n.seeAll()
	if n.path != "" && !n.isAttribute {
		if hint != "" {
			hint += "; or "
		}
		hint += "leave it out: --without '" + n.path + "'"
	}
	c.addFinding(Blocks, n, message, hint)
}

// leaveOut removes the parts that the user wants to omit.
func (c *conversion) leaveOut(root *node) error {
	for _, path := range c.options.Without {
		left := root.findPath(path)
		if path == "" || left == nil {
			return fmt.Errorf("%s: there is no part %q to leave out", c.file, path)
		}
		left.gone = true
		c.dropPart(left, "left out, as requested")
	}
	root.removeGone()
	return nil
}

// reportRest reports the parts that are still unknown after reading.
func (c *conversion) reportRest(n *node) {
	if n.text != "" && !n.textSeen {
		c.dropPart(&node{path: n.path, line: n.line}, "its text is not known here")
	}
	for _, a := range n.attributes {
		if !a.seen {
			c.dropPart(a, "is not known here")
		}
	}
	for _, child := range n.children {
		if !child.seen {
			c.blockPart(child, "is not known here", "")
			continue
		}
		c.reportRest(child)
	}
}

// finishConfig checks the configuration with its own reader.
func (c *conversion) finishConfig(root *node) {
	if c.result.Count(Blocks) > 0 {
		return
	}
	c.config.VM = c.config.VM.Within(filepath.Dir(c.file))
	text, err := c.config.Format()
	if err == nil {
		_, _, err = config.Parse("the configuration", text)
	}
	var faults yamlfile.Faults
	switch {
	case errors.As(err, &faults):
		for _, f := range faults {
			message := "the configuration would have an error: " + f.Path + ": " + f.Message
			c.addFinding(Blocks, &node{line: root.line}, message, f.Hint)
		}
	case err != nil:
		c.addFinding(Blocks, &node{line: root.line}, err.Error(), "")
	default:
		c.result.Config, c.result.vm, c.result.stop = text, c.config.VM, c.stopCommand()
	}
}

// vmSection returns the vm section of the new configuration.
func (c *conversion) vmSection() *vmspec.Spec { return &c.config.VM }

// setOption sets an option of the VM type.
func (c *conversion) setOption(name string, value any) {
	if c.vmSection().Options == nil {
		c.vmSection().Options = map[string]any{}
	}
	c.vmSection().Options[name] = value
}
