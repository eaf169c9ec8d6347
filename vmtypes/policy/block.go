package policy

import (
	"strconv"
	"strings"

	"vmop/vmtypes/plan"
	"vmop/vmtypes/qemuopt"
)

// checkDrive judges -drive, the older notation for block nodes.
func (c *checker) checkDrive(o *plan.Option) {
	if !o.List || o.Value != "" {
		c.denyAlways("it is a single text, which can contain any property; give its properties one by one")
		return
	}
	var own, node []plan.Property
	format := ""
	for _, p := range o.Properties {
		switch {
		case p.Key == "file": // not necessarily a file
			c.checkImage(p.Value, readOnly(o.Properties))
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
		c.allowWord("backends", "blockdev "+format, "block driver "+format)
		if row := qemuopt.Exactly("-blockdev", format); row == nil || !row.Known {
			c.denyAlways("what the block driver " + format + " opens is unknown")
		}
	} else {
		c.denyAlways("without format QEMU probes the image, and the guest controls its contents")
	}
	c.checkProperties(qemuopt.Flag("-drive"), own)
	if len(node) > 0 {
		if readOnly(o.Properties) {
			node = append(node, plan.Property{Key: "read-only", Value: "on"})
		}
		c.checkNode("blockdev", node, "")
	}
}

// checkImage judges the name of an image, which can contain a protocol: nbd:…, json:{…}, fat:…
func (c *checker) checkImage(name string, readOnly bool) {
	if !strings.HasPrefix(name, "/") {
		c.denyAlways("file=" + name + " is not an absolute path; QEMU could take it for a protocol")
		return
	}
	c.checkFile(accessName(readOnly), name)
}

// readOnly reports whether a node is opened only for reading.
func readOnly(list []plan.Property) bool {
	on := false
	for _, p := range list {
		if p.Key == "read-only" || p.Key == "readonly" {
			if on, _ = qemuopt.Bool(p.Value); !on {
				return false // either the last or the first counts; be on the safe side
			}
		}
	}
	return on
}

func accessName(readOnly bool) string {
	if readOnly {
		return "read"
	}
	return "write"
}

// checkNode judges a block node: its driver, and the files that it opens. Properties of inner nodes have a prefix,
// such as "file.filename".
func (c *checker) checkNode(kind string, list []plan.Property, value string) {
	if value != "" {
		c.denyAlways(strconv.Quote(value) + " is a single text, which can contain any property; give its properties " +
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
				c.denyAlways("it names two drivers")
			}
			driver = p.Value
		case p.Key == "readonly":
			c.denyAlways("readonly is a property of -drive; a block node has read-only")
		case dotted && (prefix == "file" || prefix == "backing" || prefix == "data-file"):
			inner[prefix] = append(inner[prefix], plan.Property{Key: rest, Value: p.Value, Descriptor: p.Descriptor})
		default:
			own = append(own, p)
		}
	}
	if driver == "" {
		c.denyAlways("the block node has no driver")
		return
	}
	c.allowWord("backends", kind+" "+driver, "block driver "+driver)
	row := qemuopt.Exactly("-blockdev", driver)
	if len(own) > 0 && (row == nil || !row.Known) {
		c.denyAlways("what the block driver " + driver + " opens is unknown")
		return
	}
	file := accessName(readOnly(list))
	for _, p := range own {
		if row.Property(p.Key).Host == qemuopt.Opens {
			c.checkFile(file, p.Value)
		} else {
			c.checkProperty(row, p)
		}
	}
	for _, prefix := range []string{"file", "backing", "data-file"} {
		if inside := inner[prefix]; inside != nil {
			if file == "read" {
				inside = append(inside, plan.Property{Key: "read-only", Value: "on"})
			}
			c.checkNode(kind, inside, "")
		}
	}
}
