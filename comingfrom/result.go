package comingfrom

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"unicode/utf8"

	"vmop/runner/config"
	"vmop/vmspec"
	"vmop/yamlfile"
)

// An Effect is what becomes of a part of the input.
type Effect string

// The effects.
const (
	Kept    Effect = "kept"    // it is carried over; the message says where to
	Changes Effect = "changes" // it is carried over, or left to the VM type, in another way
	Dropped Effect = "dropped" // it isn't carried over; the message says why
	Blocks  Effect = "blocks"  // there is no configuration until something has been done
)

// A Finding is what becomes of one part of the input.
type Finding struct {
	Effect Effect
	// Line of the input, beginning with 1.
	Line int
	// Path of the part, by which Options.Without names it.
	Path    string
	Message string
	// Hint is what to do; "" is nothing.
	Hint string
}

// A Format is whose definition is read.
type Format string

// The formats.
const (
	Libvirt  Format = "libvirt"  // the XML of a domain
	Quickemu Format = "quickemu" // a file NAME.conf
	Lima     Format = "lima"     // lima.yaml of an instance, or a template
	Incus    Format = "incus"    // what "incus config show --expanded" prints
)

// Formats returns all formats.
func Formats() []Format { return []Format{Libvirt, Quickemu, Lima, Incus} }

// Options say how a definition is read.
type Options struct {
	// Format of the text; "" means that it is found by the content.
	Format Format
	// Without are the paths of parts that are left out.
	Without []string
	// Bridges are the host's bridges of networks that the definition names.
	Bridges map[string]string
}

// A Result is what has become of a definition.
type Result struct {
	Format Format
	// Config is the text of a configuration file; nil if something blocks.
	Config []byte
	// Findings are in the order of the input.
	Findings []Finding
}

// Count returns how many findings have an effect.
func (r *Result) Count(effect Effect) (n int) {
	for _, f := range r.Findings {
		if f.Effect == effect {
			n++
		}
	}
	return n
}

// LargestInput bounds a definition, in bytes.
const LargestInput = 1 << 20

// Convert reads a definition; file is where it is from, an absolute path if relative paths in it are to be kept. The
// error says why nothing can be made of the text at all.
func Convert(file string, text []byte, o Options) (*Result, error) {
	switch {
	case len(text) > LargestInput:
		return nil, fmt.Errorf("%s: the definition has more than 1 MiB", file)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, fmt.Errorf("%s: the file is empty", file)
	case bytes.IndexByte(text, 0) >= 0 || !utf8.Valid(text):
		return nil, fmt.Errorf("%s: this is no text in UTF-8: want a definition, not a disk", file)
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if o.Format == "" {
		if o.Format = formatOf(text); o.Format == "" {
			return nil, fmt.Errorf("%s: whose definition it is can't be seen; --from libvirt, quickemu, lima or incus says it", file)
		}
	}
	c := &conversion{file: file, options: o, result: &Result{Format: o.Format}}
	root, read, err := c.parse(text)
	if err != nil {
		return nil, err
	}
	if err := c.leaveOut(root); err != nil {
		return nil, err
	}
	read(root)
	c.rest(root)
	c.finish(root)
	slices.SortStableFunc(c.result.Findings, func(a, b Finding) int { return a.Line - b.Line })
	return c.result, nil
}

// formatOf returns whose definition a text is; "" if it can't be seen.
func formatOf(text []byte) Format {
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("<")) {
		return Libvirt
	}
	if isShell(string(text)) {
		return Quickemu
	}
	return yamlFormat(text)
}

// conversion makes a configuration.
type conversion struct {
	file    string
	options Options
	result  *Result
	config  config.Config
}

// parse returns the tree of a text, and what reads it.
func (c *conversion) parse(text []byte) (root *node, read func(*node), err error) {
	switch c.options.Format {
	case Libvirt:
		root, err = parseXML(c.file, text)
		return root, func(n *node) { (&domain{conversion: c}).read(n) }, err
	case Quickemu:
		root, err = parseShell(c.file, text)
		return root, func(n *node) { (&quickemu{conversion: c}).read(n) }, err
	case Lima:
		root, err = parseYAML(c.file, text)
		return root, func(n *node) { (&lima{conversion: c}).read(n) }, err
	case Incus:
		root, err = parseYAML(c.file, text)
		return root, func(n *node) { (&incus{conversion: c}).read(n) }, err
	}
	return nil, nil, fmt.Errorf("%s: %q is no format that can be read", c.file, c.options.Format)
}

func (c *conversion) find(effect Effect, n *node, message, hint string) {
	n.see()
	c.result.Findings = append(c.result.Findings, Finding{effect, n.line, n.path, message, hint})
}

// keep reports that a part goes to a key of the configuration.
func (c *conversion) keep(n *node, to string) {
	if n != nil {
		c.find(Kept, n, to, "")
	}
}

func (c *conversion) change(n *node, message, hint string) {
	if n != nil {
		n.textSeen = true
		c.find(Changes, n, message, hint)
	}
}

// drop reports that a part and all below it has no effect here.
func (c *conversion) drop(n *node, why string) {
	if n != nil {
		n.seeAll()
		c.find(Dropped, n, why, "")
	}
}

// block reports that there is no configuration because of a part.
func (c *conversion) block(n *node, message, hint string) {
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
	c.find(Blocks, n, message, hint)
}

// leaveOut removes what the user doesn't want.
func (c *conversion) leaveOut(root *node) error {
	for _, path := range c.options.Without {
		left := root.find(path)
		if path == "" || left == nil {
			return fmt.Errorf("%s: there is no part %q to leave out", c.file, path)
		}
		left.gone = true
		c.drop(left, "left out, as you said")
	}
	root.remove()
	return nil
}

// rest reports what no reader has known.
func (c *conversion) rest(n *node) {
	if n.text != "" && !n.textSeen {
		c.drop(&node{path: n.path, line: n.line}, "its text is not known here")
	}
	for _, a := range n.attributes {
		if !a.seen {
			c.drop(a, "is not known here")
		}
	}
	for _, child := range n.children {
		if !child.seen {
			c.block(child, "is not known here", "")
			continue
		}
		c.rest(child)
	}
}

// finish has the configuration read by its own reader.
func (c *conversion) finish(root *node) {
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
			message := "the configuration would have a fault: " + f.Path + ": " + f.Message
			c.find(Blocks, &node{line: root.line}, message, f.Hint)
		}
	case err != nil:
		c.find(Blocks, &node{line: root.line}, err.Error(), "")
	default:
		c.result.Config = text
	}
}

// vm returns the vm section that is being made.
func (c *conversion) vm() *vmspec.Spec { return &c.config.VM }

// option sets an option of the VM type.
func (c *conversion) option(name string, value any) {
	if c.vm().Options == nil {
		c.vm().Options = map[string]any{}
	}
	c.vm().Options[name] = value
}
