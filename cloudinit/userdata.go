package cloudinit

import (
	"bytes"
	"encoding/base64"
	"strings"

	"gopkg.in/yaml.v3"
)

const (
	cloudConfigHeader = "#cloud-config\n"
	// emptyUserData is the smallest user-data that cloud-init accepts without a warning.
	emptyUserData = cloudConfigHeader + "{}\n"
)

// readDocument renders user-data or vendor-data. It returns nil if the key is missing, null, an empty mapping or
// a blank text.
func readDocument(key string, n *yaml.Node) ([]byte, error) {
	if n.Tag == verbatim {
		return withHeader([]byte(n.Value)), nil
	}
	node, err := resolveNode(key, n)
	switch {
	case err != nil:
		return nil, err
	case node == nil:
		return nil, nil
	case node.Kind == yaml.MappingNode:
		if len(node.Content) == 0 {
			return nil, nil
		}
		text, err := encodeYAML(key, node)
		return append([]byte(cloudConfigHeader), text...), err
	case node.Kind == yaml.ScalarNode && node.ShortTag() == "!!str":
		return withHeader([]byte(node.Value)), nil
	case node.Kind == yaml.ScalarNode && node.ShortTag() == "!!binary":
		data, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(node.Value), ""))
		if err != nil {
			return nil, keyFault(key, node, "!!binary holds no base64: "+err.Error())
		}
		return withHeader(data), nil
	}
	return nil, keyFault(key, node, "must be a mapping or text, not "+describeKind(node))
}

// withHeader adds the header of a cloud-config to data that cloud-init would not recognize. Blank data becomes
// nil.
func withHeader(data []byte) []byte {
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		return nil
	case bringsHeader(data):
		return data
	}
	return append([]byte(cloudConfigHeader), data...)
}

// bringsHeader reports whether cloud-init recognizes the type of the data. It follows cloud-init's own detection
// (cloudinit/handlers: type_from_starts_with; cloudinit/user_data: convert_string): a prefix from a list,
// ignoring white space and case, a MIME message, or any gzip data. The formats are explained at
// https://docs.cloud-init.io/en/latest/explanation/format.html.
func bringsHeader(data []byte) bool {
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		return true
	}
	const mimeSearched = 4096 // the part that cloud-init searches for a MIME header
	start := bytes.ToLower(bytes.TrimLeft(data[:min(len(data), mimeSearched)], " \t\r\n\v\f"))
	if bytes.Contains(start, []byte("mime-version:")) {
		return true
	}
	for _, header := range [...]string{
		"#!",
		"#cloud-config", // also -archive and -jsonp
		"## template:",  // jinja
		"#include",      // also -once
		"#cloud-boothook",
		"#part-handler",
		"#upstart-job",
		"content-type:",
	} {
		if bytes.HasPrefix(start, []byte(header)) {
			return true
		}
	}
	return false
}
