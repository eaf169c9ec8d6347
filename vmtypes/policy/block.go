package policy

import (
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// drive judges -drive, which makes block nodes in an older spelling.
func (c *checker) drive(o *plan.Option) {
	if !o.List || o.Value != "" {
		c.deny("it is a single text, which can contain any property; give its properties one by one")
		return
	}
	var own, node []plan.Property
	format := ""
	for _, p := range o.Properties {
		switch {
		case p.Key == "file": // a name, and not only of a file
			c.image(p.Value, readOnly(o.Properties))
		case p.Key == "format":
			format = p.Value
		case strings.HasPrefix(p.Key, "file."):
			node = append(node, plan.Property{Key: p.Key[len("file."):], Value: p.Value, Descriptor: p.Descriptor})
		case p.Key == "driver":
			format = p.Value
		default:
			own = append(own, p)
		}
	}
	if format != "" {
		c.allow("backends", "blockdev "+format, "block driver "+format)
		if row := qemuopt.Exactly("-blockdev", format); row == nil || !row.Known {
			c.deny("what the block driver " + format + " opens is unknown")
		}
	} else {
		c.deny("without format QEMU probes the image, whose contents the guest controls")
	}
	c.properties(qemuopt.Flag("-drive"), own)
	if len(node) > 0 {
		if readOnly(o.Properties) {
			node = append(node, plan.Property{Key: "read-only", Value: "on"})
		}
		c.node("blockdev", node, "")
	}
}

// image judges a name of an image, which may be of a protocol: nbd:…, json:{…},
// fat:…
func (c *checker) image(name string, readOnly bool) {
	if !strings.HasPrefix(name, "/") {
		c.deny("file=" + name + " is not an absolute path; QEMU could take it for a protocol")
		return
	}
	c.file(access(readOnly), name)
}

// readOnly reports whether a node is opened for reading only.
func readOnly(list []plan.Property) bool {
	on := false
	for _, p := range list {
		if p.Key == "read-only" || p.Key == "readonly" {
			if on, _ = qemuopt.Bool(p.Value); !on {
				return false // the last counts, or the first: be on the safe side
			}
		}
	}
	return on
}

func access(readOnly bool) string {
	if readOnly {
		return "read"
	}
	return "write"
}

// node judges a block node: its driver, and what that opens. Nodes within it have
// a prefix, "file.filename".
func (c *checker) node(kind string, list []plan.Property, value string) {
	if value != "" {
		c.deny(strconv.Quote(value) + " is a single text, which can contain any property; give its properties " +
			"one by one")
		return
	}
	driver := ""
	inner := map[string][]plan.Property{}
	var own []plan.Property
	for _, p := range list {
		prefix, rest, dotted := strings.Cut(p.Key, ".")
		switch {
		case p.Key == "driver":
			if driver != "" {
				c.deny("it names two drivers")
			}
			driver = p.Value
		case p.Key == "readonly":
			c.deny("readonly is a property of -drive; a block node has read-only")
		case dotted && (prefix == "file" || prefix == "backing" || prefix == "data-file"):
			inner[prefix] = append(inner[prefix], plan.Property{Key: rest, Value: p.Value, Descriptor: p.Descriptor})
		default:
			own = append(own, p)
		}
	}
	if driver == "" {
		c.deny("the block node has no driver")
		return
	}
	c.allow("backends", kind+" "+driver, "block driver "+driver)
	row := qemuopt.Exactly("-blockdev", driver)
	if len(own) > 0 && (row == nil || !row.Known) {
		c.deny("what the block driver " + driver + " opens is unknown")
		return
	}
	file := access(readOnly(list))
	for _, p := range own {
		if row.Property(p.Key).Host == qemuopt.Opens {
			c.file(file, p.Value)
		} else {
			c.property(row, p)
		}
	}
	for _, prefix := range []string{"file", "backing", "data-file"} {
		if inside := inner[prefix]; inside != nil {
			if file == "read" {
				inside = append(inside, plan.Property{Key: "read-only", Value: "on"})
			}
			c.node(kind, inside, "")
		}
	}
}
