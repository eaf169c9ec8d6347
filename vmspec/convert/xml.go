package convert

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Limits of an XML document.
const (
	deepest   = 64
	mostNodes = 50_000
)

// parseXML reads an XML document without a document type and without custom entities.
func parseXML(file string, text []byte) (*node, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	var root *node
	var open []*node
	count := 0
	for {
		token, err := d.Token()
		line, _ := d.InputPos()
		var syntax *xml.SyntaxError
		switch {
		case errors.Is(err, io.EOF):
			if root == nil {
				return nil, fmt.Errorf("%s: there is no XML element", file)
			}
			root.setPaths()
			return root, nil
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("%s:%d: not well-formed XML, or not whole: %s", file, syntax.Line, syntax.Msg)
		case err != nil:
			return nil, fmt.Errorf("%s:%d: %w", file, line, err)
		}
		switch t := token.(type) {
		case xml.Directive:
			return nil, fmt.Errorf("%s:%d: a document type is not accepted", file, line)
		case xml.StartElement:
			n := elementOf(t, line)
			if count += 1 + len(n.attributes); count > mostNodes || len(open) >= deepest {
				return nil, fmt.Errorf("%s:%d: too many elements", file, line)
			}
			switch {
			case len(open) > 0:
				parent := open[len(open)-1]
				parent.children = append(parent.children, n)
			case root == nil:
				root = n
			default:
				return nil, fmt.Errorf("%s:%d: a second document begins here; convert them one by one", file, line)
			}
			open = append(open, n)
		case xml.EndElement:
			last := open[len(open)-1]
			last.text, last.raw = strings.TrimSpace(string(last.raw)), nil
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				last := open[len(open)-1]
				last.raw = append(last.raw, t...)
			} else if len(bytes.TrimSpace(t)) > 0 {
				return nil, fmt.Errorf("%s:%d: text outside of the XML document", file, line)
			}
		}
	}
}

// qemuSpace is the namespace of elements that libvirt passes to QEMU unchanged.
const qemuSpace = "http://libvirt.org/schemas/domain/qemu/1.0"

func elementOf(t xml.StartElement, line int) *node {
	n := &node{name: xmlName(t.Name), line: line}
	for _, a := range t.Attr {
		if a.Name.Space != "xmlns" && a.Name.Local != "xmlns" {
			n.attributes = append(n.attributes, &node{
				name: xmlName(a.Name), line: line, text: a.Value, isAttribute: true,
			})
		}
	}
	return n
}

func xmlName(name xml.Name) string {
	if name.Space == qemuSpace {
		return "qemu:" + name.Local
	}
	return name.Local
}
